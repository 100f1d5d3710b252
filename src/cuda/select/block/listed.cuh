// A block's candidates, listed by their numbers in a row that is in shared memory.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/counting_search.cuh"
#include "cuda/select/key_range.cuh"

namespace rtopk::cuda {

/// Which of a block's candidates are this warp's. They are neighbours in the list, so that results are in order.
struct CandidatesOfWarp {
  int first;
  int last;

  __device__ explicit CandidatesOfWarp(int number) {
    // Rounded up. A float is precise enough, and an integer division takes 30 instructions.
    const auto threads = static_cast<float>(blockDim.x);
    const int each = static_cast<int>((static_cast<float>(number) + threads - 0.5f) * reciprocal(threads)) * 32;
    first = warp_number() * each;
    last = min(number, first + each);
  }
};

/// The candidates of a warp, with their keys. These are needed several times: those of the first kKept lines of 32 are
/// kept in registers, the others are made again from the row.
template <class T, class KeyOf, int kKept>
class ListedKeys {
 public:
  using Key = WideKey<T>;
  static constexpr int kGroup = 3;  ///< Lines that are skipped together.

  /// `list`: numbers of elements. If it is null, all elements from `begin` on are candidates.
  __device__ ListedKeys(const T* elements, const std::uint16_t* list, int begin, int number, KeyOf key_of)
      : elements_(elements), list_(list), begin_(begin), number_(number), key_of_(key_of) {
    const CandidatesOfWarp mine(number);
    first_ = mine.first;
    last_ = mine.last;
    kept_last_ = list != nullptr ? last_ : first_;
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      if (is_past_end(j)) break;
      keys_[j] = key_of_(elements_[list_[min(place(j), last_ - 1)]]);
    }
  }

  /// Calls f with the key of each of this lane's candidates.
  template <class F>
  __device__ void for_each(F&& f) const {
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      if (is_past_end(j)) break;
      if (place(j) < kept_last_) f(keys_[j]);
    }
#pragma unroll 2
    for (int i = (list_ != nullptr ? place(kKept) : place(0)); i < last_; i += 32) {
      f(key_of_(elements_[list_ != nullptr ? list_[i] : begin_ + i]));
    }
  }

  /// True if all keys of the block are kept. Then there is more to ask for.
  [[nodiscard]] __device__ bool are_kept() const { return list_ != nullptr && can_keep(number_); }
  [[nodiscard]] static __device__ bool can_keep(int listed) { return listed <= kKept * static_cast<int>(blockDim.x); }

  /// Of this warp's candidates: how many reach a range, and how many are above it.
  [[nodiscard]] __device__ RangeCounts counts(KeyRange<Key> range) const {
    int reach = 0;
    int above = 0;
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      if (is_past_end(j)) break;
      const bool exists = place(j) < kept_last_;
      reach += exists && keys_[j] >= range.low ? 1 : 0;
      above += exists && keys_[j] > range.high ? 1 : 0;
    }
    return {LaneGroup<32>::sum(reach), LaneGroup<32>::sum(above)};
  }

  /// The numbers of this lane's candidates, two in a word.
  struct Numbers {
    std::uint32_t pairs[(kKept + 1) / 2];
    [[nodiscard]] __device__ std::uint16_t of(int line) const {
      return static_cast<std::uint16_t>(line % 2 == 0 ? pairs[line / 2] : pairs[line / 2] >> 16);
    }
  };
  [[nodiscard]] __device__ Numbers numbers() const {
    Numbers numbers{};
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      if (is_past_end(j)) break;
      const std::uint32_t number = list_[min(place(j), last_ - 1)];
      numbers.pairs[j / 2] = j % 2 == 0 ? number : numbers.pairs[j / 2] | number << 16;
    }
    return numbers;
  }

  /// Lists the candidates above a range, and the first `quota` of those in it, in order. `before`: counts of the warps
  /// before. `all`: every candidate that reaches the range is selected. The list may be that of the candidates, once
  /// all warps have their numbers.
  __device__ void list_selected(std::uint16_t* to, const Numbers& numbers, KeyRange<Key> ties, RangeCounts before,
                                int quota, bool all) const {
    const unsigned earlier = (1u << lane_number()) - 1u;
    if (all) {
      to += before.reach;
#pragma unroll
      for (int j = 0; j < kKept; ++j) {
        if (is_past_end(j)) break;
        const bool chosen = place(j) < kept_last_ && keys_[j] >= ties.low;
        const unsigned line = __ballot_sync(kFullWarp, chosen);
        if (chosen) to[__popc(line & earlier)] = numbers.of(j);
        to += __popc(line);
      }
      return;
    }
    const int ties_before = before.reach - before.above;
    to += before.above + min(ties_before, quota);
    int left = quota - ties_before;
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      if (is_past_end(j)) break;
      const bool reaches = place(j) < kept_last_ && keys_[j] >= ties.low;
      const bool is_above = reaches && keys_[j] > ties.high;
      const unsigned tied = __ballot_sync(kFullWarp, reaches && !is_above);
      const bool chosen = is_above || (reaches && __popc(tied & earlier) < left);
      left -= __popc(tied);
      const unsigned line = __ballot_sync(kFullWarp, chosen);
      if (chosen) to[__popc(line & earlier)] = numbers.of(j);
      to += __popc(line);
    }
  }

 private:
  [[nodiscard]] __device__ int place(int line) const { return first_ + line * 32 + lane_number(); }
  [[nodiscard]] __device__ bool is_past_end(int line) const {
    return line % kGroup == 0 && first_ + line * 32 >= kept_last_;
  }

  const T* elements_;
  const std::uint16_t* list_;
  int begin_;
  int number_;
  KeyOf key_of_;
  int first_;
  int last_;
  int kept_last_;
  Key keys_[kKept];
};

}  // namespace rtopk::cuda
