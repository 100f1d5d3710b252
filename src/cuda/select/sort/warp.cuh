// Sorts up to 512 results of a row by value in the registers of one warp.
//
// It sorts words: a digit of the key, then the complement of the result's place, so that of equal digits the earlier
// comes first. The highest digit of the key mostly decides. The few results that have the same one are put in order by
// the whole key. If they are many, all are sorted by all digits, the lowest first.
#pragma once

#include <bit>
#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/bins.cuh"
#include "cuda/select/sort/results.cuh"
#include "plan/select/tuning_sort.hpp"

namespace rtopk::cuda {

/// C results for each lane.
template <class T, int C>
class WarpSort {
 public:
  static constexpr int kPlaces = 32 * C;
  using Key = WideKey<T>;
  static constexpr int kWarps = WarpSortConfig::kWarps;

  using Memory = SortedResults<T, kPlaces>;

  __device__ WarpSort(const SelectArguments& args, Memory& memory)
      : memory_(memory), k_(static_cast<int>(args.k)), smallest_(args.smallest) {}

  __device__ void run(const SelectArguments& args, std::int64_t row) {
    const KeyRange<Key> mine = memory_.read(args, row, lane(), 32);
    least_ = Warp::least(mine.low);
    bits_ = bits_of(Warp::greatest(mine.high) - least_);
    __syncwarp();
    sort();
    memory_.write(args, row, lane(), 32);
    __syncwarp();  // the next row uses the same memory
  }

 private:
  using Warp = LaneGroup<32>;
  static constexpr int kPlaceBits = std::bit_width(static_cast<unsigned>(kPlaces - 1));
  static constexpr std::uint32_t kPlaceMask = kPlaces - 1;
  static constexpr int kDigitBits = 32 - kPlaceBits;

  static __device__ int lane() { return Warp::lane(); }
  [[nodiscard]] __device__ Key key_at(int place) const { return memory_.key_at(place, smallest_); }

  /// Leaves the places in memory_.order, largest result first.
  __device__ void sort() {
    const int highest = max(bits_ - kDigitBits, 0);
    bool by_all = false;
    int shift = highest;
#pragma unroll 1
    do {
      // The first digit to sort by finds the results in the order of their places.
      const unsigned tied = sort_by_digit(shift, by_all && shift > 0);
      if (by_all) {
        shift += kDigitBits;
      } else {
        if (highest == 0 || !__any_sync(kFullWarp, tied != 0) || break_ties(tied)) return;
        by_all = true;
        shift = 0;
      }
    } while (shift < bits_);
  }

  /// Puts results with the same highest digit in order by their keys. A group of them is looked after by the lane that
  /// has its second member. `tied`: as sort_by_digit returned it. False if a group has many members.
  __device__ bool break_ties(unsigned tied) const {
    constexpr int kMost = 8;
    static_assert(kMost <= C);  // a group reaches no further than the next lane
    // Results that are equal in all digits are in order already.
    bool in_order = true;
    for (unsigned left = tied; left != 0 && in_order; left &= left - 1) {
      const int rank = lane() * C + __ffs(static_cast<int>(left)) - 1;
      in_order = key_at(memory_.order[rank - 1]) >= key_at(memory_.order[rank]);
    }
    if (__all_sync(kFullWarp, in_order)) return true;
    const unsigned before = __shfl_up_sync(kFullWarp, tied, 1);
    const unsigned after = __shfl_down_sync(kFullWarp, tied, 1);
    const bool continues = lane() > 0 && (before >> (C - 1) & 1u) != 0;
    const std::uint64_t both = tied | (lane() < 31 ? static_cast<std::uint64_t>(after) << C : 0u);
    bool few = true;
    for (unsigned seconds = tied & ~(tied << 1 | (continues ? 1u : 0u)); seconds != 0 && few; seconds &= seconds - 1) {
      const int second = __ffs(static_cast<int>(seconds)) - 1;
      const std::uint64_t end = ~(both >> second);
      const int members = end == 0 ? 64 : __ffsll(static_cast<long long>(end));
      few = members <= kMost;
      if (few) memory_.order_by_key(lane() * C + second - 1, members, smallest_);
    }
    __syncwarp();
    return __all_sync(kFullWarp, few);
  }

  /// Sorts by the bits of the key from `shift` on. Equal ones stay in the order that they have: that of memory_.order,
  /// or that of their places. Returns bits of this lane's ranks whose digit is that of the rank before.
  __device__ unsigned sort_by_digit(int shift, bool has_order) {
    std::uint32_t words[C];
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int rank = j * 32 + lane();
      words[j] = 0;  // comes last: a result with this word has the last place, and then all places are used
      if (rank >= k_) continue;
      const Key distance = key_at(has_order ? memory_.order[rank] : rank) - least_;
      words[j] = static_cast<std::uint32_t>(distance >> shift) << kPlaceBits |
                 (~static_cast<std::uint32_t>(rank) & kPlaceMask);
    }
    Warp::sort_descending(words);
    const std::uint32_t above = __shfl_up_sync(kFullWarp, words[C - 1], 1);
    const int mine = k_ - lane() * C;
    unsigned tied = lane() > 0 && mine > 0 && (above ^ words[0]) <= kPlaceMask ? 1u : 0u;
#pragma unroll
    for (int j = 1; j < C; ++j) tied |= j < mine && (words[j - 1] ^ words[j]) <= kPlaceMask ? 1u << j : 0u;
#pragma unroll
    for (int j = 0; j < C; ++j) words[j] = ~words[j] & kPlaceMask;
    if (has_order) {
#pragma unroll
      for (int j = 0; j < C; ++j) words[j] = j < mine ? memory_.order[words[j]] : 0u;
    }
    __syncwarp();
    auto* to = reinterpret_cast<uint4*>(memory_.order + lane() * C);
#pragma unroll
    for (int j = 0; j < C; j += 8) {
      to[j / 8] = {words[j] | words[j + 1] << 16, words[j + 2] | words[j + 3] << 16, words[j + 4] | words[j + 5] << 16,
                   words[j + 6] | words[j + 7] << 16};
    }
    __syncwarp();
    return tied;
  }

  Memory& memory_;
  int k_;
  bool smallest_;
  Key least_;
  int bits_;  ///< Of the distance from the least key to the greatest.
};

template <class T, int C>
__global__ void __launch_bounds__(32 * WarpSortConfig::kWarps, WarpSortConfig::kMinBlocks)
    warp_sort_kernel(const __grid_constant__ SelectArguments args) {
  using Sort = WarpSort<T, C>;
  extern __shared__ __align__(16) char shared[];
  auto* memory = reinterpret_cast<typename Sort::Memory*>(shared);
  static_assert(sizeof(typename Sort::Memory) <= WarpSortConfig::warp_bytes(C, sizeof(T)));
  const auto warp = static_cast<int>(threadIdx.x / 32);
  Sort sort(args, memory[warp]);
  for (std::int64_t row = std::int64_t{blockIdx.x} * Sort::kWarps + warp; row < args.rows;
       row += std::int64_t{gridDim.x} * Sort::kWarps) {
    sort.run(args, row);
  }
}

}  // namespace rtopk::cuda
