// Widens elements of up to 32 bits to f32.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "core/keys.hpp"

namespace rtopk::cuda {

__device__ inline float as_float(float raw) { return raw; }
__device__ inline float as_float(core::F16 raw) { return __half2float(__ushort_as_half(raw.bits)); }
__device__ inline float as_float(core::BF16 raw) { return __uint_as_float(static_cast<std::uint32_t>(raw.bits) << 16); }

}  // namespace rtopk::cuda
