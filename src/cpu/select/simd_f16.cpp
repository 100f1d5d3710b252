// Selection kernels for f16.
#define RTOPK_ELEMENT core::F16
#define RTOPK_RUN run_f16
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/select/simd_f16.cpp"
#include "cpu/select/simd_type-inl.hpp"
