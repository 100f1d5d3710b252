// Writes the selected candidates of a row in every form, for cuda_filter: by one warp.
//
// The dense form of a row is zeros and the selected elements: the row itself need not be read again.
#pragma once

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/candidate_search.cuh"
#include "cuda/select/filter/threshold.cuh"
#include "cuda/select/result_row.cuh"
#include "plan/select/tuning_filter.hpp"

namespace rtopk::cuda {

/// Stores to global memory if a condition holds, without a branch.
template <class Pointer, class Bits>
__device__ void store_if(bool condition, Pointer* to, int position, Bits bits) {
  const auto yes = static_cast<unsigned>(condition);
  if constexpr (sizeof(Bits) == 8) {
    asm volatile(
        "{ .reg .pred p; .reg .s64 a; setp.ne.u32 p, %3, 0; mad.wide.s32 a, %1, 8, %0; @p st.global.b64 [a], %2; }" ::
            "l"(to),
        "r"(position), "l"(bits), "r"(yes)
        : "memory");
  } else if constexpr (sizeof(Bits) == 4) {
    asm volatile(
        "{ .reg .pred p; .reg .s64 a; setp.ne.u32 p, %3, 0; mad.wide.s32 a, %1, 4, %0; @p st.global.b32 [a], %2; }" ::
            "l"(to),
        "r"(position), "r"(bits), "r"(yes)
        : "memory");
  } else if constexpr (sizeof(Bits) == 2) {
    asm volatile(
        "{ .reg .pred p; .reg .s64 a; setp.ne.u32 p, %3, 0; mad.wide.s32 a, %1, 2, %0; @p st.global.b16 [a], %2; }" ::
            "l"(to),
        "r"(position), "h"(bits), "r"(yes)
        : "memory");
  } else {
    asm volatile(
        "{ .reg .pred p; .reg .s64 a; setp.ne.u32 p, %3, 0; mad.wide.s32 a, %1, 1, %0; @p st.global.b8 [a], %2; }" ::
            "l"(to),
        "r"(position), "h"(static_cast<std::uint16_t>(bits)), "r"(yes)
        : "memory");
  }
}

/// The candidates lie in shared memory, in ascending order of columns. `kShort`: lists of up to kShortList candidates.
template <class T, bool kShort>
class FilterResult {
 public:
  using Config = FilterConfig<T>;
  using Key = typename FilterKey<T>::Key;
  using Bits = core::KeyOf<T>;
  using Warp = LaneGroup<32>;

  /// For order by value, only the k selected candidates are left in the list afterwards.
  static __device__ void write(const SelectArguments& args, T* elements, std::int32_t* columns, std::int64_t row,
                               int number, const CandidateThreshold<Key>& kth) {
    if (args.form == Form::dense || args.form == Form::mask) {
      write_whole(args, elements, columns, row, number, kth);
    } else if (kShort && args.by_value && args.k > 1) {
      if constexpr (kShort) {
        keep(args, elements, columns, number, kth);
        write_by_value(args, elements, columns, row, kth.edge);
      }
    } else {
      const FilterResult result(args, elements, columns);
      with_indices(args, row, [&](auto* indices) { result.write_pairs(row, indices, number, kth); });
    }
    __syncwarp();
  }

  /// Moves the selected candidates to the beginning of the list.
  static __device__ __noinline__ void keep(const SelectArguments& args, T* elements, std::int32_t* columns, int number,
                                           CandidateThreshold<Key> kth) {
    const FilterResult result(args, elements, columns);
    result.for_selected(number, kth, [&](bool chosen, int position, T element, std::int32_t column, bool) {
      __syncwarp();  // all lanes have read what may be overwritten now
      if (chosen) {
        elements[position] = element;
        columns[position] = column;
      }
    });
    __syncwarp();
  }

 private:
  __device__ FilterResult(const SelectArguments& args, T* elements, std::int32_t* columns)
      : args_(args), elements_(elements), columns_(columns) {}

  /// Calls `visit` for 32 candidates at a time, in all lanes: whether this lane's is selected, how many selected ones
  /// come before it, and whether these are the last candidates. One loop with and without ties: less code to fetch.
  template <class Visit>
  __device__ void for_selected(int number, const CandidateThreshold<Key>& kth, Visit visit) const {
    const int lane = Warp::lane();
    const unsigned lanes_below = (1u << lane) - 1u;
    const bool smallest = args_.smallest;
    const T* element_at = elements_ + lane;
    const std::int32_t* column_at = columns_ + lane;
    int position = 0;
    int tied = 0;
    // Invariant: of the candidates before, `position` are selected and `tied` equal the kth value.
#pragma unroll 1
    for (int left = number - lane; left + lane > 0; left -= 32) {
      const T element = *element_at;
      const std::int32_t column = *column_at;
      const Key key = left > 0 ? FilterKey<T>::of(element, smallest) : Key{0};
      bool chosen = key > kth.edge;
      if (kth.quota > 0) {
        const unsigned ties = __ballot_sync(kFullWarp, left > 0 && key == kth.edge);
        chosen = chosen || ((ties >> lane & 1u) != 0 && tied + __popc(ties & lanes_below) < kth.quota);
        tied += __popc(ties);
      }
      const unsigned all = __ballot_sync(kFullWarp, chosen);
      visit(chosen, position + __popc(all & lanes_below), element, column, left + lane <= 32);
      position += __popc(all);
      element_at += 32;
      column_at += 32;
    }
  }

  template <class Index>
  __device__ void write_pairs(std::int64_t row, Index* indices, int number, const CandidateThreshold<Key>& kth) const {
    const bool has_values = args_.values != nullptr;
    const bool has_indices = args_.indices != nullptr;
    T* const values = static_cast<T*>(args_.values) + row * args_.k;
    for_selected(number, kth, [&](bool chosen, int position, T element, std::int32_t column, bool) {
      store_if(chosen && has_values, values, position, core::bits_of(element));
      store_if(chosen && has_indices, indices, position, static_cast<Index>(column));
    });
  }

  static __device__ __noinline__ void write_whole(const SelectArguments& args, T* elements, std::int32_t* columns,
                                                  std::int64_t row, int number, CandidateThreshold<Key> kth) {
    const FilterResult result(args, elements, columns);
    if (args.form == Form::dense) {
      result.write_row(static_cast<Bits*>(args.dense) + row * args.cols, number, kth,
                       [](T element) { return core::bits_of(element); });
    } else {
      result.write_row(args.mask + row * args.cols, number, kth, [](T) { return std::uint8_t{1}; });
    }
  }

  /// Goes from left to right, so that zeros that an element then replaces are still in the cache.
  template <class Unit, class UnitOf>
  __device__ void write_row(Unit* row, int number, const CandidateThreshold<Key>& kth, UnitOf unit_of) const {
    constexpr int kVector = 16 / static_cast<int>(sizeof(Unit));
    const int lane = Warp::lane();
    const int cols = static_cast<int>(args_.cols);
    // Whole vectors, and the units before the first and after the last of them.
    const auto address = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(row));
    const int before = min(static_cast<int>(-address % 16 / sizeof(Unit)), cols);
    const int vectors = (cols - before) / kVector;
    const int behind = (cols - before) % kVector;
    uint4* const whole = reinterpret_cast<uint4*>(row + before);
    if (lane < before) row[lane] = 0;
    if (lane < behind) row[cols - behind + lane] = 0;
    int zeroed = 0;
    for_selected(number, kth, [&](bool chosen, int, T element, std::int32_t column, bool are_last) {
      const int last = Warp::from_lane(column, 31);
      const int end = are_last ? vectors : min((last - before) / kVector + 1, vectors);
#pragma unroll 4
      for (int vector = zeroed + lane; vector < end; vector += 32) whole[vector] = uint4{0, 0, 0, 0};
      zeroed = end;
      __syncwarp();  // zeros before what replaces them
      store_if(chosen, row, column, unit_of(element));
    });
  }

  /// Writes the k candidates that were kept. No key is below `least`.
  static __device__ __noinline__ void write_by_value(const SelectArguments& args, T* elements, std::int32_t* columns,
                                                     std::int64_t row, Key least) {
    const FilterResult result(args, elements, columns);
    const int k = static_cast<int>(args.k);
    const bool ordered = k <= 32   ? result.template find_order<1>(least)
                         : k <= 64 ? result.template find_order<2>(least)
                                   : result.template find_order<kMaxPerLane>(least);
    if (!ordered) result.count_order();
    with_indices(args, row, [&](auto* indices) { result.write_ordered(row, indices); });
  }

  static constexpr int kMaxPerLane = kFilterMaxSorted / 32;
  static_assert(!kShort || Config::capacity(kFilterMaxSorted) <= Config::kShortList);
  static_assert(kMaxPerLane == 4 && Config::capacity(kFilterMaxSorted / 2 + 1) >= 2 * kFilterMaxSorted);

  /// The place in the list of the candidate of each rank; stored after the columns that were kept.
  __device__ std::int32_t* order() const { return columns_ + kFilterMaxSorted; }

  /// Sorts words of the key's distance from `least`, shortened to the bits left beside the place, and the place. False
  /// if keys that differ only in the lost bits are out of order.
  template <int C>
  __device__ bool find_order(Key least) const {
    constexpr Key kPlaces = kFilterMaxSorted - 1;
    constexpr int kPlaceBits = 7;
    static_assert(kPlaces >> kPlaceBits == 0);
    constexpr int kKeyBits = 8 * static_cast<int>(sizeof(Key)) - kPlaceBits;
    const int lane = Warp::lane();
    const int k = static_cast<int>(args_.k);
    const bool smallest = args_.smallest;
    Key words[C];
    Key range = 0;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const Key key = FilterKey<T>::of(elements_[lane + 32 * j], smallest);  // may be a candidate that was not kept
      words[j] = lane + 32 * j < k ? key - least : Key{0};
      range = max(range, words[j]);
    }
    int cut = 0;
    if constexpr (sizeof(T) > 2) {
      range = Warp::greatest(range);
      if constexpr (sizeof(T) == 8) {
        cut = max(0, 64 - __clzll(static_cast<long long>(range)) - (kKeyBits - 1));
      } else {
        cut = max(0, 32 - __clz(static_cast<int>(range)) - (kKeyBits - 1));
      }
    }
#pragma unroll
    for (int j = 0; j < C; ++j) {
      // Distance plus 1, so that an unused place comes last.
      const Key word = ((words[j] >> cut) + 1) << kPlaceBits | (kPlaces - static_cast<Key>(lane + 32 * j));
      words[j] = lane + 32 * j < k ? word : Key{0};
    }
    Warp::sort_descending(words);
    struct alignas(4 * C) Places {
      std::int32_t of[C];
    } places;
#pragma unroll
    for (int j = 0; j < C; ++j) places.of[j] = static_cast<std::int32_t>(kPlaces - (words[j] & kPlaces));
    reinterpret_cast<Places*>(order())[lane] = places;
    __syncwarp();
    if (cut == 0) return true;
    bool ordered = true;
#pragma unroll 1
    for (int rank = lane; rank + 1 < k; rank += 32) ordered = ordered && key_of_rank(rank) >= key_of_rank(rank + 1);
    return __all_sync(kFullWarp, ordered);
  }

  __device__ Key key_of_rank(int rank) const { return FilterKey<T>::of(elements_[order()[rank]], args_.smallest); }

  /// The same by comparing each with each.
  __device__ void count_order() const {
    const int k = static_cast<int>(args_.k);
    __syncwarp();
#pragma unroll 1
    for (int place = Warp::lane(); place < k; place += 32) {
      const Key key = FilterKey<T>::of(elements_[place], args_.smallest);
      int rank = 0;
#pragma unroll 1
      for (int other = 0; other < k; ++other) {
        const Key others = FilterKey<T>::of(elements_[other], args_.smallest);
        rank += others > key || (others == key && other < place) ? 1 : 0;
      }
      order()[rank] = place;
    }
    __syncwarp();
  }

  template <class Index>
  __device__ void write_ordered(std::int64_t row, Index* indices) const {
    T* const values = static_cast<T*>(args_.values) + row * args_.k;
    const int k = static_cast<int>(args_.k);
#pragma unroll 1
    for (int rank = Warp::lane(); rank < k; rank += 32) {
      const std::int32_t place = order()[rank];
      if (args_.values != nullptr) values[rank] = elements_[place];
      if (args_.indices != nullptr) indices[rank] = static_cast<Index>(columns_[place]);
    }
  }

  const SelectArguments& args_;
  T* elements_;
  std::int32_t* columns_;
};

}  // namespace rtopk::cuda
