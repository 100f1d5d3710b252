// The first two thresholds of a row, from a sorted sample of it. They depend on ranks alone, so the distribution of the
// elements does not matter.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block/arguments.hpp"
#include "cuda/select/element.cuh"
#include "cuda/select/key_range.cuh"
#include "plan/select/tuning_block.hpp"

namespace rtopk::cuda {

/// A range of keys that most likely holds the kth value, and a key that few exceed.
template <class Key>
struct SampledRange : KeyRange<Key> {
  Key usual_high;
};

/// All lanes of a warp call this. Reads the row from global memory, so that it can run while the row is being copied.
template <class T>
class RangeFromSample {
 public:
  using Key = WideKey<T>;

  /// The sample of long rows is inlined: they are few, and a call would wait for code that the caches do not have yet.
  static __device__ SampledRange<Key> draw(const BlockArguments& args, const T* row) {
    constexpr int kLogMost = sizeof(T) == 8 ? 7 : 8;
    return args.log_sample == kLogMost ? draw_of<(1 << kLogMost) / 32>(args, row) : draw_few(args, row);
  }

 private:
  using Warp = LaneGroup<32>;

  static __device__ __noinline__ SampledRange<Key> draw_few(const BlockArguments& args, const T* row) {
    return args.log_sample == 6 ? draw_of<2>(args, row) : draw_of<4>(args, row);
  }

  /// C elements for each lane, one from each of 32 * C equal parts of the row, at a place that has no pattern.
  template <int C>
  static __device__ SampledRange<Key> draw_of(const BlockArguments& args, const T* row) {
    constexpr unsigned kPart = 0x80000000u / (16 * C);
    Key keys[C];
#pragma unroll
    for (int i = 0; i < C; ++i) {
      const unsigned number = static_cast<unsigned>(i * 32) + threadIdx.x % 32;
      const unsigned hash = (number + 1) * 0x9e3779b9u;
      const unsigned place = number * kPart + (hash ^ hash >> 15) % kPart;
      const T raw = row[__umulhi(place, static_cast<unsigned>(args.cols))];
      keys[i] = directed_key(compared(raw, args.magnitude), args.smallest);
    }
    Warp::sort_descending(keys);
    constexpr Key kTop = core::max_key<T>;
    const Key low = args.worse_rank >= 32 * C ? Key{0} : Warp::at_rank(keys, args.worse_rank);
    if (args.better_rank >= 0) {
      const Key high = Warp::at_rank(keys, args.better_rank);
      return {{low, high}, high};
    }
    // As far above the best of the sample as that is above the low end.
    const Key best = Warp::at_rank(keys, 0);
    return {{low, kTop}, best + min(best - low, kTop - best)};
  }
};

/// Sets the ranks of the sample for a row of another length or k than the plan's.
template <class T>
__device__ __noinline__ void sample_again(BlockArguments& args) {
  const BlockSample sample = block_sample<float>(args.cols, args.k, sizeof(T), 1 << 20);
  args.log_sample = sample.log_size;
  args.better_rank = sample.better_rank;
  args.worse_rank = sample.worse_rank;
}

}  // namespace rtopk::cuda
