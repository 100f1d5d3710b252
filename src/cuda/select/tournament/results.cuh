// How cuda_tournament lists and writes the results of a tile, wherever its elements lie in shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/keys.hpp"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/element.cuh"
#include "cuda/select/result_row.cuh"
#include "plan/select/tuning_tournament.hpp"

namespace rtopk::cuda {

__device__ inline char* tournament_memory() {
  extern __shared__ __align__(16) char memory[];
  return memory;
}

/// Marks of a lane's elements, the first in the highest bit.
template <int kMasks>
struct TournamentMarks {
  static __device__ bool any(const unsigned (&marks)[kMasks]) { return (marks[0] | marks[kMasks - 1]) != 0; }

  /// Clears the first mark, which there must be, and returns its number.
  static __device__ int take_first(unsigned (&marks)[kMasks]) {
    if constexpr (kMasks == 1) {
      const int at = __clz(static_cast<int>(marks[0]));
      marks[0] &= ~(0x80000000u >> at);
      return at;
    } else {
      const bool second = marks[0] == 0;
      const int bit = __clz(static_cast<int>(second ? marks[1] : marks[0]));
      const unsigned cleared = 0x80000000u >> bit;
      marks[1] = second ? marks[1] & ~cleared : marks[1];
      marks[0] = marks[0] & ~cleared;
      return second ? bit + 32 : bit;
    }
  }
};

/// Places in shared memory are given in bytes from its beginning, so that the compiler always knows the address space.
template <class T, int G, int R, int K>
struct TournamentResults {
  using Lists = TournamentLists<T, G>;
  static constexpr int kMasks = (R + 31) / 32;
  using Marks = TournamentMarks<kMasks>;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));

  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }

  /// Writes values and indices of the elements marked in their lanes, the first element's mark in the highest bit.
  /// `before`: marked elements of the row in lower lanes.
  static __device__ void write(const SelectArguments& args, std::int64_t first_row, int rows, int elements_at,
                               int lists_at, int first_col, const unsigned (&marks)[kMasks], int before) {
    if constexpr (K == 1) return write_only(args, first_row, rows, elements_at, first_col, marks);
    const int k = static_cast<int>(args.k);
    const std::int64_t first = first_row * args.k;
    T* values = args.values == nullptr ? nullptr : static_cast<T*>(args.values) + first;
    char* indices = static_cast<char*>(args.indices);
    if (indices != nullptr) indices += first * bytes_of(args.index_type);
    write_pairs(elements_at, lists_at, first_col, marks[0], marks[kMasks - 1], lane() / G * k + before, values, indices,
                args.index_type, rows * k, args.by_value ? k : 0, args.smallest);
  }

  /// Of k = 1: each lane writes the result that it has.
  static __device__ void write_only(const SelectArguments& args, std::int64_t first_row, int rows, int elements_at,
                                    int first_col, const unsigned (&marks)[kMasks]) {
    const int row = lane() / G;
    if (row >= rows || !Marks::any(marks)) return;
    const int at = kMasks == 2 && marks[0] == 0 ? 32 + __clz(static_cast<int>(marks[kMasks - 1]))
                                                : __clz(static_cast<int>(marks[0]));
    const std::int64_t to = first_row + row;
    const int column = first_col + at;
    if (args.values != nullptr) {
      static_cast<T*>(args.values)[to] = reinterpret_cast<const T*>(tournament_memory() + elements_at)[at];
    }
    if (args.indices == nullptr) return;
    with_indices(args, to,
                 [&](auto* index) { *index = static_cast<std::remove_reference_t<decltype(*index)>>(column); });
  }

  static __device__ int bytes_of(IndexType type) {
    return type == IndexType::i64 ? 8 : type == IndexType::i32 ? 4 : type == IndexType::u16 ? 2 : 1;
  }

  // Functions that are not inlined can use all registers and cost the others none. They take their inputs by value:
  // inside them the compiler would load a kernel's arguments from memory instead of using constants.

  /// `ordered`: k if the results must be sorted by value, else 0.
  static __device__ __noinline__ void write_pairs(int elements_at, int lists_at, int first_col, unsigned first_marks,
                                                  unsigned last_marks, int position, T* values_to, char* indices_to,
                                                  IndexType index_type, int count, int ordered, bool smallest) {
    unsigned marks[kMasks];
    marks[kMasks - 1] = last_marks;
    marks[0] = first_marks;
    T* values = reinterpret_cast<T*>(tournament_memory() + lists_at);
    auto* columns = reinterpret_cast<std::int32_t*>(tournament_memory() + lists_at + Lists::values_bytes(K));
    list(reinterpret_cast<const T*>(tournament_memory() + elements_at), first_col, marks, values + position,
         columns + position);
    __syncwarp();
    if (ordered != 0) {
      order_results(
          values, columns, ordered, smallest, [](T value) { return value; }, [&](int) { return ordered; });
    }
    if (values_to != nullptr) write_values(values_to, values, count);
    if (indices_to == nullptr) return;
    switch (index_type) {
      case IndexType::i32: write_columns(reinterpret_cast<std::int32_t*>(indices_to), columns, count); break;
      case IndexType::i64: write_columns(reinterpret_cast<std::int64_t*>(indices_to), columns, count); break;
      case IndexType::u8: write_columns(reinterpret_cast<std::uint8_t*>(indices_to), columns, count); break;
      case IndexType::u16: write_columns(reinterpret_cast<std::uint16_t*>(indices_to), columns, count); break;
    }
  }

  /// Lists marked elements and their columns in index order.
  static __device__ void list(const T* elements, int first_col, unsigned (&marks)[kMasks], T* value,
                              std::int32_t* column) {
#pragma unroll 1
    while (Marks::any(marks)) {
      const int at = Marks::take_first(marks);
      *value++ = elements[at];
      *column++ = first_col + at;
    }
  }

  // Write the results of all rows together, in accesses as wide as the address allows.

  static __device__ void write_values(T* to, const T* values, int count) {
    if (reinterpret_cast<std::uintptr_t>(to) % 16 == 0 && count % kVector == 0) {
#pragma unroll 1
      for (int i = lane() * kVector; i < count; i += 32 * kVector) {
        *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(values + i);
      }
    } else {
#pragma unroll 1
      for (int i = lane(); i < count; i += 32) to[i] = values[i];
    }
  }

  template <class Index>
  static __device__ void write_columns(Index* to, const std::int32_t* columns, int count) {
    constexpr unsigned kAlignment = sizeof(Index) == 8 ? 16 : 4 * sizeof(Index);
    if (reinterpret_cast<std::uintptr_t>(to) % kAlignment == 0 && count % 4 == 0) {
#pragma unroll 1
      for (int i = lane() * 4; i < count; i += 128) {
        const int4 four = *reinterpret_cast<const int4*>(columns + i);
        if constexpr (sizeof(Index) == 8) {
          *reinterpret_cast<longlong2*>(to + i) = make_longlong2(four.x, four.y);
          *reinterpret_cast<longlong2*>(to + i + 2) = make_longlong2(four.z, four.w);
        } else if constexpr (sizeof(Index) == 4) {
          *reinterpret_cast<int4*>(to + i) = four;
        } else if constexpr (sizeof(Index) == 2) {
          *reinterpret_cast<uint2*>(to + i) =
              make_uint2(static_cast<unsigned>(four.x | four.y << 16), static_cast<unsigned>(four.z | four.w << 16));
        } else {
          *reinterpret_cast<unsigned*>(to + i) =
              static_cast<unsigned>(four.x | four.y << 8 | four.z << 16 | four.w << 24);
        }
      }
    } else {
#pragma unroll 1
      for (int i = lane(); i < count; i += 32) to[i] = static_cast<Index>(columns[i]);
    }
  }

  /// Sorts the results of every row, largest first: the rank of a result is the number of results before it. K
  /// neighbouring lanes hold those of a row. `compared(value)` stands for a value; row i has `results_of(i)` of k.
  template <class Compared, class ResultsOf>
  static __device__ void order_results(T* values, std::int32_t* columns, int k, bool smallest, Compared compared,
                                       ResultsOf results_of) {
    const int number = lane() % K;
#pragma unroll 1
    for (int first = 0; first < Lists::kRows; first += 32 / K) {
      const int row = first + lane() / K;
      const bool exists = row < Lists::kRows && number < results_of(row);
      T value{};
      std::int32_t column = 0;
      typename Element<T>::SortKey key = 0;
      if (exists) {
        value = values[row * k + number];
        column = columns[row * k + number];
        key = Element<T>::sort_key(Element<T>::value(compared(value)));
        if (smallest) key = ~key;
      }
      int rank = 0;
#pragma unroll
      for (int i = 0; i < K; ++i) {
        const auto other = __shfl_sync(kFullWarp, key, i, K);
        rank += other > key || (other == key && i < number) ? 1 : 0;
      }
      __syncwarp();
      if (exists) {
        values[row * k + rank] = value;
        columns[row * k + rank] = column;
      }
    }
    __syncwarp();
  }
};

}  // namespace rtopk::cuda
