// Selection kernels for i32.
#define RTOPK_ELEMENT std::int32_t
#define RTOPK_RUN run_i32
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/select/simd_i32.cpp"
#include "cpu/select/simd_type-inl.hpp"
