#define RTOPK_ELEMENT core::BF16
#define RTOPK_RUN run_bf16
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd_bf16.cpp"
#include "simd_type-inl.hpp"
