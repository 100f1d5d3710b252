// The results of a row in order by value, for cuda_warp: a bitonic network over the lanes of the row.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "warp_row.cuh"

namespace rtopk::cuda {

template <class T, int G, int R>
class WarpOrder {
 public:
  using Row = WarpRow<T, G, R>;
  using Shape = typename Row::Shape;
  using Group = typename Row::Group;
  using Word = typename Row::E::SortKey;

  __device__ explicit WarpOrder(const Row& row) : row_(row), k_(row.k()) {}

  /// Puts the list of the row's columns in order, best first.
  __device__ void order() const { order_up_to<std::max(1, Shape::kSortedPerLane / 8)>(); }

  /// The same with little code and few registers, for rows that are rare: the network's exchanges are made in the list.
  __device__ void order_in_place() const {
#pragma unroll 1
    for (int size = 2; size < 2 * k_; size *= 2) {
#pragma unroll 1
      for (int stride = size; stride > 1; stride /= 2) exchange_in_list(stride, stride == size);
    }
  }

 private:
  static constexpr int kColumnBits = std::bit_width(static_cast<unsigned>(Shape::kCols - 1));
  static constexpr Word kColumnMask = (Word{1} << kColumnBits) - 1;
  static constexpr int kKeyBits = static_cast<int>(8 * sizeof(Word)) - kColumnBits;

  /// With C results for each lane, or twice as many, and so on.
  template <int C>
  __device__ void order_up_to() const {
    if constexpr (C < Shape::kSortedPerLane) {
      if (k_ > G * C) return order_up_to<2 * C>();
    }
    order_by_words<C>();
  }

  /// A word has a key's distance from the least of them, cut to the bits that there is room for, and the column, so that the lower
  /// one comes first. What the cut has made equal is looked at again.
  template <int C>
  __device__ void order_by_words() const {
    const int first = Group::lane() * C;
    Word words[C];
    unsigned columns[C];
    load_columns(first, columns);
    Word least = ~Word{0};
    Word greatest = 0;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      // Behind the last result the list has what is no column.
      words[j] = 0;
      if (first + j < k_) {
        words[j] = key(columns[j]);
        least = words[j] < least ? words[j] : least;
        greatest = words[j] > greatest ? words[j] : greatest;
      }
    }
    least = Group::least(least);
    const int shift = max(0, bits_of(Group::greatest(greatest) - least) - (kKeyBits - 1));
#pragma unroll
    for (int j = 0; j < C; ++j) {
      // 1 more than the distance, so that a place without a result comes last.
      const Word word = ((words[j] - least >> shift) + 1 << kColumnBits) | (columns[j] ^ kColumnMask);
      words[j] = first + j < k_ ? word : Word{0};
    }
    Group::sort_descending(words);
    const bool cut = alike(words) && shift > 0;  // all lanes take part in alike()
    __syncwarp();
#pragma unroll
    for (int j = 0; j < C; ++j) {
      if (first + j < k_) row_.list[first + j] = static_cast<std::uint16_t>(~words[j] & kColumnMask);
    }
    __syncwarp();
    if (__any_sync(kWholeWarp, cut)) {
      while (exchange_neighbours()) {
      }
    }
  }

  /// The columns of ranks `first` on, as wide loads.
  template <int C>
  __device__ void load_columns(int first, unsigned (&columns)[C]) const {
    using Load =
        std::conditional_t<C >= 8, uint4,
                           std::conditional_t<C == 4, uint2, std::conditional_t<C == 2, unsigned, std::uint16_t>>>;
    constexpr int kLoads = 2 * C / static_cast<int>(sizeof(Load));
    union {
      Load loads[kLoads];
      std::uint16_t column[C];
    } loaded;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) loaded.loads[i] = reinterpret_cast<const Load*>(row_.list + first)[i];
#pragma unroll
    for (int j = 0; j < C; ++j) columns[j] = loaded.column[j];
  }

  __device__ Word key(int column) const {
    return static_cast<Word>(directed_key(row_.tile[Row::place(column)], row_.call.smallest));
  }

  static __device__ int bits_of(Word word) {
    if constexpr (sizeof(Word) == 8) return 64 - __clzll(static_cast<long long>(word));
    return 32 - __clz(static_cast<int>(word));
  }

  /// Whether neighbours differ in nothing but their columns.
  template <int C>
  static __device__ bool alike(const Word (&words)[C]) {
    const Word above = __shfl_up_sync(kWholeWarp, words[C - 1], 1, G);
    bool found = Group::lane() > 0 && (above ^ words[0]) <= kColumnMask && words[0] != 0;
#pragma unroll
    for (int j = 1; j < C; ++j) found = found || ((words[j - 1] ^ words[j]) <= kColumnMask && words[j] != 0);
    return found;
  }

  /// One round of exchanges between neighbours. False if all were in order already, in all rows of the warp.
  __device__ bool exchange_neighbours() const {
    bool exchanged = false;
#pragma unroll 1
    for (int odd = 0; odd < 2; ++odd) {
#pragma unroll 1
      for (int i = 2 * Group::lane() + odd; i + 1 < k_; i += 2 * G) exchanged |= exchange(i, i + 1);
      __syncwarp();
    }
    return __any_sync(kWholeWarp, exchanged);
  }

  /// A step of the network: within every `span` ranks, those of the first half against those of the second, or their mirror image.
  /// Ranks without a result would be last, where they are.
  __device__ void exchange_in_list(int span, bool mirrored) const {
#pragma unroll 1
    for (int pair = Group::lane(); pair < k_; pair += G) {
      const int within = pair & (span / 2 - 1);
      const int begin = 2 * (pair - within);
      const int first = begin + within;
      const int second = mirrored ? begin + span - 1 - within : first + span / 2;
      if (second < k_) exchange(first, second);
    }
    __syncwarp();
  }

  /// Puts two ranks of the list in order.
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

/// What a kernel does about order by value. It is compiled in where it may be wanted, and once where registers count.
enum class Ordering { none, fast, in_place };

/// Writes what was chosen of a row in the form that is wanted.
template <Ordering kOrdering, class T, int G, int R>
__device__ void write_chosen(const WarpRow<T, G, R>& row, const Marks<R>& chosen) {
  if (row.call.form == Form::dense) return row.write_dense(chosen);
  if (row.call.form == Form::mask) return row.write_mask(chosen);
  row.list_chosen(chosen);
  if (kOrdering != Ordering::none && row.call.by_value) {
    const WarpOrder<T, G, R> results(row);
    if constexpr (kOrdering == Ordering::fast) results.order();
    if constexpr (kOrdering == Ordering::in_place) results.order_in_place();
  }
  row.write_list();
}

}  // namespace rtopk::cuda
