// Selection kernels for f64.
#define RTOPK_ELEMENT double
#define RTOPK_RUN run_f64
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/select/simd_f64.cpp"
#include "cpu/select/simd_type-inl.hpp"
