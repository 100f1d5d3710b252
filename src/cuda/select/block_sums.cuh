// Sums over the threads of a block. Every thread must call each function, and gets the same result unless noted. Each
// begins with a barrier, so that calls can follow each other on the same scratch memory.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"

namespace rtopk::cuda {

/// Shared memory of these functions.
struct BlockScratch {
  std::int64_t totals[2][32];
  std::int64_t found[3];
};

inline __device__ int warp_number() { return static_cast<int>(threadIdx.x / 32); }
inline __device__ int lane_number() { return static_cast<int>(threadIdx.x % 32); }
inline __device__ int warps_of_block() { return static_cast<int>(blockDim.x / 32); }

inline __device__ std::int64_t warp_sum(std::int64_t x) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(kFullWarp, x, distance);
  return x;
}

struct TwoSums {
  std::int64_t a;
  std::int64_t b;
};

inline __device__ TwoSums block_sums(std::int64_t a, std::int64_t b, BlockScratch& scratch) {
  a = warp_sum(a);
  b = warp_sum(b);
  __syncthreads();
  if (lane_number() == 0) {
    scratch.totals[0][warp_number()] = a;
    scratch.totals[1][warp_number()] = b;
  }
  __syncthreads();
  const bool reads = lane_number() < warps_of_block();
  return {warp_sum(reads ? scratch.totals[0][lane_number()] : 0),
          warp_sum(reads ? scratch.totals[1][lane_number()] : 0)};
}

inline __device__ std::int64_t block_sum(std::int64_t x, BlockScratch& scratch) {
  x = warp_sum(x);
  __syncthreads();
  if (lane_number() == 0) scratch.totals[0][warp_number()] = x;
  __syncthreads();
  return warp_sum(lane_number() < warps_of_block() ? scratch.totals[0][lane_number()] : 0);
}

/// The sum of `x` over the threads before this one.
inline __device__ std::int64_t block_sum_before(std::int64_t x, BlockScratch& scratch) {
  std::int64_t inclusive = x;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const std::int64_t below = __shfl_up_sync(kFullWarp, inclusive, distance);
    if (lane_number() >= distance) inclusive += below;
  }
  __syncthreads();
  if (lane_number() == 31) scratch.totals[0][warp_number()] = inclusive;
  __syncthreads();
  return inclusive - x + warp_sum(lane_number() < warp_number() ? scratch.totals[0][lane_number()] : 0);
}

}  // namespace rtopk::cuda
