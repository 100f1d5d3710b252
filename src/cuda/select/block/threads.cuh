// Operations of all threads of a block of cuda_block: sums, and positions in index order.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "plan/select/tuning_block.hpp"

namespace rtopk::cuda {

/// Operations of all threads of a block.
template <class T, int W>
class BlockOfThreads {
 public:
  using Config = BlockConfig<T, W>;
  using Warp = LaneGroup<32>;

 protected:
  __device__ BlockOfThreads(std::uint16_t* list, int* partials) : list_(list), partials_(partials) {}

  static __device__ int warp() { return static_cast<int>(threadIdx.x / 32); }
  static __device__ int col_of(int chunk, int j) {
    return chunk * Config::kChunkCols + static_cast<int>(threadIdx.x) * Config::kVector + j;
  }
  static __device__ int col_of(int r) { return col_of(r / Config::kVector, r % Config::kVector); }

  /// The sum over the block, for every thread. Alternates between two sets of partial sums, so that one barrier is
  /// enough.
  __device__ int sum(int x) {
    int* mine = partials_ + (turn_ ? W : 0);
    turn_ = !turn_;
    const int of_warp = Warp::sum(x);
    if (threadIdx.x % 32 == 0) mine[warp()] = of_warp;
    __syncthreads();
    const int lane = static_cast<int>(threadIdx.x % 32);
    return Warp::sum(lane < W ? mine[lane] : 0);
  }

  /// The first `quota` of the elements in `eligible` (a bit for each register), in index order.
  __device__ unsigned first_in_index_order(unsigned eligible, int quota) {
    int first[Config::kChunks];
    positions_of(eligible, first);
    const unsigned chosen = within_quota<Config::kVector>(eligible, first, quota);
    __syncthreads();
    return chosen;
  }

  __device__ void positions_of(unsigned chosen, int (&first)[Config::kChunks]) {
    unsigned counts[Config::kChunks];
#pragma unroll
    for (int chunk = 0; chunk < Config::kChunks; ++chunk) {
      counts[chunk] =
          static_cast<unsigned>(__popc(chosen >> (chunk * Config::kVector) & ((1u << Config::kVector) - 1u)));
    }
    positions(counts, first);
  }

  /// The position, in index order, of the first of a thread's elements of each chunk. All partial sums of the block are
  /// in use until the next barrier.
  __device__ void positions(const unsigned (&counts)[Config::kChunks], int (&first)[Config::kChunks]) {
    int* totals = partials_ + 2 * W;  // [chunk][warp]
    static_assert(Config::kChunks % 2 == 0);
#pragma unroll
    for (int chunk = 0; chunk < Config::kChunks; chunk += 2) {
      // Two chunks in a word: a warp has at most 256 elements of each.
      const unsigned packed = counts[chunk] + (counts[chunk + 1] << 16);
      const unsigned inclusive = Warp::inclusive_sum(packed);
      const unsigned below = inclusive - packed;
      first[chunk] = static_cast<int>(below & 0xffffu);
      first[chunk + 1] = static_cast<int>(below >> 16);
      if (threadIdx.x % 32 == 31) {
        totals[chunk * W + warp()] = static_cast<int>(inclusive & 0xffffu);
        totals[(chunk + 1) * W + warp()] = static_cast<int>(inclusive >> 16);
      }
    }
    __syncthreads();
    if (warp() == 0) {
      constexpr int kEach = (Config::kChunks * W + 31) / 32;
      int sums[kEach];
      int total = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int entry = static_cast<int>(threadIdx.x) * kEach + i;
        sums[i] = total;
        total += entry < Config::kChunks * W ? totals[entry] : 0;
      }
      const int before = static_cast<int>(Warp::inclusive_sum(static_cast<unsigned>(total))) - total;
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int entry = static_cast<int>(threadIdx.x) * kEach + i;
        if (entry < Config::kChunks * W) totals[entry] = before + sums[i];
      }
    }
    __syncthreads();
#pragma unroll
    for (int chunk = 0; chunk < Config::kChunks; ++chunk) first[chunk] += totals[chunk * W + warp()];
  }

  std::uint16_t* list_;  ///< Selected columns. Between rows the memory has other uses.
  int* partials_;

 private:
  bool turn_ = false;
};

}  // namespace rtopk::cuda
