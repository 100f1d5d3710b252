#define RTOPK_ELEMENT float
#define RTOPK_RUN run_f32
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd_f32.cpp"
#include "simd_type-inl.hpp"
