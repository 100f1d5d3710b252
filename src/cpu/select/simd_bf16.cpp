// Selection kernels for bf16.
#define RTOPK_ELEMENT core::BF16
#define RTOPK_RUN run_bf16
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/select/simd_bf16.cpp"
#include "cpu/select/simd_type-inl.hpp"
