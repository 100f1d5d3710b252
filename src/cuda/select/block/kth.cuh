// The exact search for the kth value in a range of keys: counts the elements in bins of keys, goes on in the bin that
// holds the kth value, and sorts the last few.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/bins.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/key_range.cuh"
#include "plan/select/tuning_block.hpp"

namespace rtopk::cuda {

template <class Key>
struct KthMemory {
  std::uint32_t bins[kBins];
  Key small[kBlockMaxSmall];
  int number_of_small;
  FoundBin found;
  Key kth;
};

template <class T>
class KthSearch {
 public:
  using Key = WideKey<T>;
  using Memory = KthMemory<Key>;

  __device__ explicit KthSearch(Memory& memory) : memory_(memory) {}

  /// Before a barrier of the block.
  __device__ void clear() {
    auto* bins = reinterpret_cast<uint4*>(memory_.bins);
    for (int i = static_cast<int>(threadIdx.x); i < kBins / 4; i += static_cast<int>(blockDim.x)) bins[i] = uint4{};
    if (threadIdx.x == 0) memory_.number_of_small = 0;
  }

  /// The k-th largest of the elements whose keys are in the range; there are `inside` of them, few above `usual_high`.
  /// `for_each(f)` calls f with the keys of this thread's elements, also with some outside of the range.
  template <class ForEach>
  __device__ Key find(KeyRange<Key> range, Key usual_high, int inside, int k, ForEach&& for_each) {
    // The first bin has all that is above `cut`.
    Key cut = max(min(usual_high, range.high), range.low);
#pragma unroll 1
    while (inside > kBlockMaxSmall) {
      const int shift = max(bits_of(cut - range.low) - 8, 0);
      for_each([&](Key key) {
        if (key < range.low || key > range.high) return;
        atomicAdd(memory_.bins + static_cast<int>(key > cut ? Key{0} : (cut - key) >> shift), 1u);
      });
      __syncthreads();
      if (warp_number() == 0) find_bin_of(k);
      __syncthreads();
      const Key high = cut - (static_cast<Key>(memory_.found.bin) << shift);
      const Key span = (Key{1} << shift) - 1;
      if (memory_.found.bin != 0) range.high = high;
      if (high - range.low > span) range.low = high - span;
      k -= memory_.found.before;
      inside = memory_.found.inside;
      cut = range.high;
      if (range.low == range.high) return range.low;
    }
    for_each([&](Key key) {
      if (key < range.low || key > range.high) return;
      memory_.small[atomicAdd(&memory_.number_of_small, 1)] = key;
    });
    __syncthreads();
    if (warp_number() == 0) sort_small(k);
    __syncthreads();
    return memory_.kth;
  }

 private:
  using Warp = LaneGroup<32>;

  /// Clears the bins.
  __device__ void find_bin_of(int k) {
    auto* mine = reinterpret_cast<uint4*>(memory_.bins + lane_number() * kBinsOfLane);
    const uint4 a = mine[0];
    const uint4 b = mine[1];
    mine[0] = uint4{};
    mine[1] = uint4{};
    find_bin({a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, k, memory_.found);
  }

  __device__ void sort_small(int k) {
    Key keys[1] = {lane_number() < memory_.number_of_small ? memory_.small[lane_number()] : Key{0}};
    Warp::sort_descending(keys);
    if (lane_number() == k - 1) memory_.kth = keys[0];
  }

  Memory& memory_;
};

}  // namespace rtopk::cuda
