// Adds up the partial sums of several blocks, in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/runtime/launch.hpp"

namespace rtopk::cuda {

inline constexpr int kAddingThreads = 256;

static __global__ void __launch_bounds__(kAddingThreads)
    add_parts_kernel(const float* parts, float* result, std::int64_t count, std::int32_t part_count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kAddingThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kAddingThreads + threadIdx.x; i < count; i += step) {
    float sum = 0.0f;
#pragma unroll 8
    for (int part = 0; part < part_count; ++part) sum += parts[part * count + i];
    result[i] = sum;
  }
}

/// Enqueues it after the kernel that was launched with `grid`.
inline cudaError_t launch_add_parts(const float* parts, float* result, std::int64_t count, std::int32_t part_count,
                                    Grid grid) {
  constexpr std::int64_t kMaxAddingBlocks = 4096;
  static std::atomic<std::uint64_t> allowed;
  grid.blocks = std::min((count + kAddingThreads - 1) / kAddingThreads, kMaxAddingBlocks);
  grid.threads = kAddingThreads;
  grid.shared_bytes = 0;
  return launch(&add_parts_kernel, allowed, grid, parts, result, count, part_count);
}

}  // namespace rtopk::cuda
