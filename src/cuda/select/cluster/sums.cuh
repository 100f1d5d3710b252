// Sums over the threads of a block of cuda_cluster, with one barrier each.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block_sums.cuh"

namespace rtopk::cuda {

class BlockSums {
 public:
  /// The sum over the threads before this one, and over all.
  struct Sums {
    int before;
    int total;
  };
  /// Sums of the warps. Two sets in alternation, so that one barrier is enough.
  struct Memory {
    int of_warps[2][32];
  };

  __device__ explicit BlockSums(Memory& memory) : memory_(memory) {}

  __device__ int total(int x) { return Warp::sum(of_a_warp(Warp::sum(x))); }

  __device__ Sums before(int x) {
    const int up_to_here = static_cast<int>(Warp::inclusive_sum(static_cast<std::uint32_t>(x)));
    const int there = of_a_warp(Warp::from_lane(up_to_here, 31));
    return {Warp::sum(lane_number() < warp_number() ? there : 0) + up_to_here - x, Warp::sum(there)};
  }

 private:
  using Warp = LaneGroup<32>;

  /// Exchanges one number of each warp: lane i gets that of warp i, or 0.
  __device__ int of_a_warp(int x) {
    int* of_warps = memory_.of_warps[turn_];
    turn_ ^= 1;
    if (lane_number() == 0) of_warps[warp_number()] = x;
    __syncthreads();
    return lane_number() < warps_of_block() ? of_warps[lane_number()] : 0;
  }

  Memory& memory_;
  int turn_ = 0;
};

}  // namespace rtopk::cuda
