// The exact search for the kth value among a row's candidates, over directed keys, by a block. For cuda_cluster. Every
// pass divides the range of keys by 256, whatever their distribution, and takes one barrier. Two or three passes are
// usual.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/candidate_search.cuh"
#include "plan/select/tuning_cluster.hpp"

namespace rtopk::cuda {

template <class T>
class BlockThreshold {
 public:
  using Config = ClusterConfig<T>;
  using Key = typename Config::Key;
  using Warp = LaneGroup<32>;
  static_assert(Config::kBins == kClusterThreads && Config::kBins == 8 * 32);

  __device__ explicit BlockThreshold(char* bins) : bins_(reinterpret_cast<int*>(bins)) {}

  /// Clears the first set of bins. A barrier must follow.
  __device__ void prepare() { bins_[threadIdx.x] = 0; }

  /// Finds the kth value of the keys, which all lie from `low`, which is not 0, to `high`.
  __device__ CandidateThreshold<Key> find(const Key* keys, int number, int k, Key low, Key high) {
    int set = 0;
    int passes = 0;
    // Invariant: the kth value lies in [low, high] and is the k-th largest key there; `k` shrinks with the range.
#pragma unroll 1
    while (true) {
      const Key range = high - low;
      const int shift = max(bits_of(range) - 8, 0);
      int* bins = bins_ + set * Config::kBins;
      // A slow warp may still read the previous set; nobody reads the next one.
      set = set == Config::kBinSets - 1 ? 0 : set + 1;
      bins_[set * Config::kBins + static_cast<int>(threadIdx.x)] = 0;
#pragma unroll 1
      for (int i = static_cast<int>(threadIdx.x); i < number; i += kClusterThreads) {
        const Key below = high - keys[i];
        if (below <= range) atomicAdd(bins + static_cast<int>(below >> shift), 1);
      }
      __syncthreads();
      ++passes;
      const Found found = bin_of(bins, k);
      high -= static_cast<Key>(found.bin) << shift;
      k -= found.before;
      if (shift == 0) return {high, k, passes};
      const Key span = (Key{1} << shift) - 1;
      low = high - low < span ? low : high - span;
      if (found.inside == k) return {low - 1, 0, passes};
    }
  }

 private:
  struct Found {
    int bin;
    int before;  ///< Keys in the bins before it.
    int inside;
  };

  static __device__ int bits_of(std::uint32_t x) { return 32 - __clz(static_cast<int>(x)); }
  static __device__ int bits_of(std::uint64_t x) { return 64 - __clzll(static_cast<long long>(x)); }

  /// The bin that holds the k-th key.
  static __device__ Found bin_of(const int* bins, int k) {
    const int4* mine = reinterpret_cast<const int4*>(bins) + 2 * lane_number();
    const int4 a = mine[0];
    const int4 b = mine[1];
    const int counts[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += counts[i];
    const int up_to_here = static_cast<int>(Warp::inclusive_sum(static_cast<std::uint32_t>(sum)));
    Found found{lane_number() * 8, up_to_here - sum, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const bool passed = found.before + found.inside < k;
      if (passed) {
        found.bin = lane_number() * 8 + i;
        found.before += found.inside;
        found.inside = counts[i];
      }
    }
    const int lane = __ffs(static_cast<int>(Warp::vote(up_to_here >= k))) - 1;
    return {Warp::from_lane(found.bin, lane), Warp::from_lane(found.before, lane), Warp::from_lane(found.inside, lane)};
  }

  int* bins_;
};

}  // namespace rtopk::cuda
