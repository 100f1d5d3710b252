// Sorts the results of a row by value, for cuda_warp: a bitonic network over the lanes of the row.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "cuda/select/warp/results.cuh"

namespace rtopk::cuda {

template <class Row>
class WarpOrder {
 public:
  using T = typename Row::Type;
  using Config = typename Row::Config;
  using Group = typename Row::Group;
  using Word = typename Element<T>::SortKey;
  static constexpr int G = Group::kLanes;

  __device__ explicit WarpOrder(const Row& row) : row_(row), k_(row.k()) {}

  /// Sorts the list of the row's columns, largest element first.
  __device__ void order() const { order_up_to<std::max(1, Config::kSortedPerLane / 8)>(); }

 private:
  static constexpr int kColumnBits = std::bit_width(static_cast<unsigned>(Config::kCols - 1));
  static constexpr Word kColumnMask = (Word{1} << kColumnBits) - 1;

  /// With C results for each lane, or twice as many, and so on.
  template <int C>
  __device__ void order_up_to() const {
    if constexpr (C < Config::kSortedPerLane) {
      // Not k_: the rows of a warp must all take the same way.
      if (static_cast<int>(row_.args.k) > G * C) return order_up_to<2 * C>();
    }
    order_by_words<C>();
  }

  /// A word holds, left-aligned, a key's distance from the smallest key, and in its last bits the complement of the
  /// column, so that of equal keys the lower column comes first. If low bits of the distance did not fit, neighbours
  /// are compared again.
  template <int C>
  __device__ void order_by_words() const {
    const int first = Group::lane() * C;
    const int mine = k_ - first;
    Columns<C> columns;
    columns.load(row_.list + first);
    // An unused place gets the column of a result, which changes neither the smallest nor the largest key.
    const unsigned another = row_.list[0];
    Word words[C];
    Word least = ~Word{0};
    Word greatest = 0;
#pragma unroll
    for (int j = 0; j < C; ++j) words[j] = key(j < mine ? columns.of[j] : another);
#pragma unroll
    for (int j = 0; j < C; ++j) {
      least = words[j] < least ? words[j] : least;
      greatest = words[j] > greatest ? words[j] : greatest;
    }
    least = Group::least(least);
    const int shift = leading_zeros(Group::greatest(greatest) - least);
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const Word word = (((words[j] - least) << shift) & ~kColumnMask) | (~Word{columns.of[j]} & kColumnMask);
      // 0 comes last. A result whose word is 0 too has the column that 0 stands for.
      words[j] = j < mine ? word : Word{0};
    }
    Group::sort_descending(words);
    const bool cut = alike(words, mine) && shift < kColumnBits;  // all lanes take part in alike()
#pragma unroll
    for (int j = 0; j < C; ++j) columns.of[j] = static_cast<std::uint16_t>(~words[j] & kColumnMask);
    __syncwarp();
    columns.store(row_.list + first);
    __syncwarp();
    if (__any_sync(kFullWarp, cut)) {
      while (exchange_neighbours()) {
      }
    }
  }

  /// The columns of neighbouring ranks, in as few accesses as possible.
  template <int C>
  union Columns {
    using Access =
        std::conditional_t<C >= 8, uint4,
                           std::conditional_t<C == 4, uint2, std::conditional_t<C == 2, std::uint32_t, std::uint16_t>>>;
    static constexpr int kAccesses = 2 * C / static_cast<int>(sizeof(Access));

    std::uint16_t of[C];
    Access access[kAccesses];

    __device__ void load(const std::uint16_t* list) {
#pragma unroll
      for (int i = 0; i < kAccesses; ++i) access[i] = reinterpret_cast<const Access*>(list)[i];
    }
    __device__ void store(std::uint16_t* list) const {
#pragma unroll
      for (int i = 0; i < kAccesses; ++i) reinterpret_cast<Access*>(list)[i] = access[i];
    }
  };

  __device__ Word key(int column) const { return static_cast<Word>(directed_key(row_.at(column), row_.args.smallest)); }

  /// At most the largest shift allowed.
  static __device__ int leading_zeros(Word word) {
    if constexpr (sizeof(Word) == 8) return min(__clzll(static_cast<long long>(word)), 63);
    return min(__clz(static_cast<int>(word)), 31);
  }

  /// True if neighbours among the first `mine` words of the lane, or the one before them, differ in nothing but their
  /// columns.
  template <int C>
  static __device__ bool alike(const Word (&words)[C], int mine) {
    const Word above = __shfl_up_sync(kFullWarp, words[C - 1], 1, G);
    bool found = Group::lane() > 0 && (above ^ words[0]) <= kColumnMask && mine > 0;
#pragma unroll
    for (int j = 1; j < C; ++j) found = found || ((words[j - 1] ^ words[j]) <= kColumnMask && j < mine);
    return found;
  }

  /// One round of exchanges between neighbours. False if nothing changed in any row of the warp.
  __device__ bool exchange_neighbours() const {
    bool exchanged = false;
#pragma unroll 1
    for (int odd = 0; odd < 2; ++odd) {
#pragma unroll 1
      for (int i = 2 * Group::lane() + odd; i + 1 < k_; i += 2 * G) exchanged |= exchange(i, i + 1);
      __syncwarp();
    }
    return __any_sync(kFullWarp, exchanged);
  }

  /// Puts two ranks of the list in order. True if it exchanged them.
  __device__ bool exchange(int first, int second) const {
    const std::uint16_t first_column = row_.list[first];
    const std::uint16_t second_column = row_.list[second];
    const Word first_key = key(first_column);
    const Word second_key = key(second_column);
    if (first_key > second_key || (first_key == second_key && first_column < second_column)) return false;
    row_.list[first] = second_column;
    row_.list[second] = first_column;
    return true;
  }

  const Row& row_;
  int k_;
};

/// Writes the selected elements of a row in the form that is wanted. kOrders: results may have to be sorted by value.
template <bool kOrders, class Row>
__device__ void write_chosen(const Row& row, const typename Row::Marked& chosen) {
  if (row.args.form == Form::dense) return row.write_dense(chosen);
  if (row.args.form == Form::mask) return row.write_mask(chosen);
  list_chosen(row, chosen);
  if constexpr (kOrders) {
    if (row.args.by_value) WarpOrder<Row>(row).order();
  }
  write_list(row);
}

}  // namespace rtopk::cuda
