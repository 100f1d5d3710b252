#define RTOPK_ELEMENT std::int32_t
#define RTOPK_RUN run_i32
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd_i32.cpp"
#include "simd_type-inl.hpp"
