// Selection kernels for f32.
#define RTOPK_ELEMENT float
#define RTOPK_RUN run_f32
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/select/simd_f32.cpp"
#include "cpu/select/simd_type-inl.hpp"
