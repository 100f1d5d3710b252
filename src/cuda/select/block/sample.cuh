// The first two thresholds of a row, from a sample of it. They depend on ranks alone, so the distribution of the
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

/// The sample: C elements for each lane of a warp, one from each of 32 * C equal parts of the row, at a place that has no
/// pattern. `kShared`: of a row that blocks share.
template <class T, bool kShared>
class RowSample {
 public:
  using Key = WideKey<T>;

  /// All lanes of a warp call this. A large sample is inlined: a call would wait for code that the caches do not have.
  [[nodiscard]] static __device__ SampledRange<Key> draw(const BlockArguments& args, const T* row) {
    return args.log_sample == kLogMost ? draw_of<(1 << kLogMost) / 32>(args, row) : draw_few(args, row);
  }

 private:
  using Warp = LaneGroup<32>;
  static constexpr int kLogMost = log_most_sample(sizeof(T), kShared);

  static __device__ __noinline__ SampledRange<Key> draw_few(const BlockArguments& args, const T* row) {
    return args.log_sample == 7 ? draw_of<4>(args, row) : draw_of<8>(args, row);
  }

  template <int C>
  static __device__ __forceinline__ SampledRange<Key> draw_of(const BlockArguments& args, const T* row) {
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
    Warp::sort_own(keys);
    constexpr Key kTop = core::max_key<T>;
    const Key low = args.worse_rank >= 32 * C ? Key{0} : at_rank(keys, args.worse_rank, 1 + args.worse_rank / 16);
    if (args.better_rank >= 0) {
      const Key high = at_rank(keys, args.better_rank, 0);
      return {{low, high}, high};
    }
    const Key best = Warp::greatest(keys[0]);
    // The kth value is far below the best of the sample, or perhaps above: then as far as that is above the low end. Where
    // the sample has none of the k best, which happens in one row of exp(n) if n of them are expected in it, blocks that
    // share a row would have to meet twice more. Elements of 16 bits meet again: bins of one key each are worth more.
    constexpr int kSureRank = kShared && sizeof(T) != 2 ? 16 : 8;
    return {{low, kTop}, args.worse_rank >= kSureRank ? best : best + min(best - low, kTop - best)};
  }

  /// A key that as many keys of all lanes reach as there are ranks up to this one, the best being 0; more only if some
  /// are equal. Each lane's keys are sorted.
  template <int C>
  static __device__ __forceinline__ Key at_rank(const Key (&keys)[C], int rank, int slack) {
    // Of each lane the key of a rank of its own. All lanes' keys up to there reach the least of these, and only those
    // before it can be above the greatest.
    Key own = keys[0];
#pragma unroll
    for (int j = 1; j < C; ++j) own = rank >= 32 * j ? keys[j] : own;
    Key low = Warp::least(own);
    Key high = Warp::greatest(own);
#pragma unroll 1
    while (low < high) {
      const Key middle = low + (high - low) / 2 + 1;
      int reach = 0;
#pragma unroll
      for (int j = 0; j < C; ++j) reach += keys[j] >= middle ? 1 : 0;
      reach = Warp::sum(reach);
      if (reach > rank) {
        low = middle;
        if (reach <= rank + 1 + slack) break;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

/// Sets the ranks of the sample for a row of another length or k than the plan's. `kept_lines`: of 32 candidates for each
/// warp, which are kept in registers.
template <class T>
__device__ __noinline__ void sample_again(BlockArguments& args, int kept_lines) {
  // Candidates of one threshold are up to half as many more as there are results. Where all are listed and kept, that takes
  // less than a second threshold, behind which all elements are marked again.
  const int kept = min(args.list_capacity, kept_lines * static_cast<int>(blockDim.x));
  const BlockSample sample = block_sample<float>(args.cols, args.k, sizeof(T), 1 << 20, args.parts, kept * 2 / 3);
  args.log_sample = sample.log_size;
  args.better_rank = sample.better_rank;
  args.worse_rank = sample.worse_rank;
}

}  // namespace rtopk::cuda
