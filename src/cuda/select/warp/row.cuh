// A row held by G lanes of a warp: where its elements lie, positions in index order, and how to write a
// selection. select.cuh and search.cuh decide what to select.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/runtime/async_copy.cuh"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/element.cuh"
#include "cuda/select/marks.cuh"
#include "cuda/select/result_row.cuh"
#include "plan/select/tuning_warp.hpp"

namespace rtopk::cuda {

template <class T, int G, int R>
struct WarpRow {
  using Config = WarpConfig<T, G, R>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Group = LaneGroup<G>;

  const SelectArguments& args;
  T* tile;              ///< The current rows, in shared memory.
  std::uint16_t* list;  ///< Columns of this group's row.
  std::int64_t row;

  __device__ int cols() const { return static_cast<int>(args.cols); }
  __device__ int k() const { return static_cast<int>(args.k); }

  // ------------------------------------------------------------------------------------------------------------------
  // Rows in shared memory. A lane's elements are neighbours, so that one prefix sum gives their places among the
  // results.

  static __device__ int place(int col) { return place(col, Group::index_in_warp()); }
  static __device__ int place(int col, int group) {
    constexpr int kRowVectors = G * Config::kVectors;
    int number = col / Config::kVector;
    // If rows begin at a multiple of kSwizzleMask + 1 spans, the group does not change the swizzle bits.
    if (kRowVectors / Config::kSwizzleSpan % (Config::kSwizzleMask + 1) != 0 || kRowVectors < Config::kSwizzleSpan) {
      number += group * kRowVectors;
    }
    const int change = (number / Config::kSwizzleSpan & Config::kSwizzleMask) * Config::kVector;
    return (col ^ change) + group * Config::kCols;
  }
  static __device__ int col_of(int r) { return Group::lane() * R + r; }

  union Vector {
    uint4 bits;
    T raw[Config::kVector];
  };

  /// The shared address of the i-th vector of this lane, in a tile aligned to 128 bytes. The bits of the lane's and the
  /// vector's index do not overlap, so that all but one operation happen at compile time.
  __device__ std::uint32_t vector_address(int i) const {
    const int first = Config::place_of_vector(static_cast<int>(threadIdx.x % 32) * Config::kVectors);
    const std::uint32_t address = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile)) + 16 * first;
    return Config::kSwizzled ? (address ^ (i % 8 * 16)) + i / 8 * 128 : address + i * 16;
  }
  __device__ Vector vector_at(int i) const {
    Vector loaded;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(loaded.bits.x), "=r"(loaded.bits.y), "=r"(loaded.bits.z), "=r"(loaded.bits.w)
                 : "r"(vector_address(i))
                 : "memory");
    return loaded;
  }
  /// The shared address of the r-th element of this lane.
  __device__ std::uint32_t element_address(int r) const {
    const int distance = r * static_cast<int>(sizeof(T));
    if constexpr (!Config::kSwizzled) return vector_address(0) + distance;
    if constexpr (Config::kVectors <= 8) return vector_address(0) ^ distance;  // as in vector_address
    return vector_address(r / Config::kVector) + r % Config::kVector * static_cast<int>(sizeof(T));
  }
  __device__ void replace_vector(int i, const Vector& vector) const {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(vector_address(i)), "r"(vector.bits.x),
                 "r"(vector.bits.y), "r"(vector.bits.z), "r"(vector.bits.w)
                 : "memory");
  }

  /// The r-th element of this lane.
  __device__ T element_at(int r) const { return *static_cast<const T*>(__cvta_shared_to_generic(element_address(r))); }
  /// The same value as load() gives.
  __device__ Value value_at(int r) const {
    const Value value = E::value(element_at(r));
    return args.smallest ? E::reversed(value) : value;
  }
  __device__ core::KeyOf<T> key_at(int r) const { return directed_key(element_at(r), args.smallest); }

  __device__ void load(Value (&x)[R]) const {
#pragma unroll
    for (int i = 0; i < Config::kVectors; ++i) {
      const Vector loaded = vector_at(i);
#pragma unroll
      for (int j = 0; j < Config::kVector; ++j) x[i * Config::kVector + j] = E::value(loaded.raw[j]);
    }
    if (args.smallest) {
#pragma unroll
      for (int r = 0; r < R; ++r) x[r] = E::reversed(x[r]);
    }
  }

  /// Fills the places past the end of a row with a value that is never selected. Copies do not touch them, so they are
  /// written once.
  static __device__ void pad(T* tile, int cols, bool smallest) {
    using Bits = core::KeyOf<T>;
    Bits bits;
    if constexpr (core::is_floating<T>) {
      constexpr Bits infinity = core::ElementTraits<T>::infinity_bits;
      bits = smallest ? infinity : static_cast<Bits>(infinity | (Bits{1} << (8 * sizeof(Bits) - 1)));
    } else {
      bits = smallest ? 0x7fffffffu : 0x80000000u;
    }
    auto* elements = reinterpret_cast<Bits*>(tile);
#pragma unroll 1
    for (int col = cols + Group::lane(); col < Config::kCols; col += G) elements[place(col)] = bits;
  }

  static __device__ void fetch_narrow(const T* from, T* to, int cols, int access_bytes) {
    if (access_bytes >= 8) {
      copy_pieces<8>(from, to, cols);
    } else if (access_bytes >= 4) {
      copy_pieces<4>(from, to, cols);
    } else {
#pragma unroll 1
      for (int col = Group::lane(); col < cols; col += G) to[place(col)] = from[col];
    }
  }

  template <int kBytes>
  static __device__ void copy_pieces(const T* from, T* to, int cols) {
    constexpr int kPiece = kBytes / static_cast<int>(sizeof(T));
    if constexpr (kPiece >= 1) {
#pragma unroll 1
      for (int col = Group::lane() * kPiece; col < cols; col += G * kPiece) {
        copy_async<kBytes>(to + place(col), from + col);
      }
    }
  }

  // ------------------------------------------------------------------------------------------------------------------
  // The selected elements: one mark for each element of the lane, the first in the highest bit (marks.cuh).

  /// Marks of the elements before the end of the row.
  static __device__ Marks<R> marks_inside(int cols) { return Marks<R>::first(cols - Group::lane() * R); }

  /// The first `quota` of the elements in `eligible`, in index order.
  static __device__ Marks<R> first_in_index_order(Marks<R> eligible, int quota) {
    const int mine = eligible.count();
    const int before = static_cast<int>(Group::inclusive_sum(static_cast<unsigned>(mine))) - mine;
    const int allowed = quota - before;
    if (allowed <= 0) return Marks<R>::none();
    eligible.drop_last(mine - allowed);
    return eligible;
  }

  __device__ void list_chosen(const Marks<R>& chosen) const {
    const int mine = chosen.count();
    const int first = static_cast<int>(Group::inclusive_sum(static_cast<unsigned>(mine))) - mine;
    auto next = static_cast<std::uint32_t>(__cvta_generic_to_shared(list + first));
    chosen.for_each([&](int, int, int r) {
      asm volatile("st.shared.u16 [%0], %1;" ::"r"(next), "h"(static_cast<std::uint16_t>(col_of(r))) : "memory");
      next += 2;
    });
    __syncwarp();
  }

  __device__ void write_dense(const Marks<R>& chosen) const {
    // Goes through the tile, so that neighbouring lanes write neighbouring vectors. The padding past the end of the row
    // must stay.
    const Marks<R> kept = chosen | Marks<R>::first(R).without(marks_inside(cols()));
#pragma unroll
    for (int i = 0; i < Config::kVectors; ++i) {
      Vector out = vector_at(i);
#pragma unroll
      for (int j = 0; j < Config::kVector; ++j) {
        if (!kept.has(i * Config::kVector + j)) out.raw[j] = T{};
      }
      replace_vector(i, out);
    }
    __syncwarp();
    T* out_row = static_cast<T*>(args.dense) + row * args.cols;
    if (args.dense_access_bytes == 16) {
#pragma unroll
      for (int i = 0; i < Config::kVectors; ++i) {
        const int col = (i * G + Group::lane()) * Config::kVector;
        if (col < cols()) *reinterpret_cast<uint4*>(out_row + col) = *reinterpret_cast<const uint4*>(tile + place(col));
      }
    } else {
#pragma unroll 1
      for (int col = Group::lane(); col < cols(); col += G) out_row[col] = tile[place(col)];
    }
  }

  __device__ void write_mask(const Marks<R>& chosen) const {
    std::uint8_t* out_row = args.mask + row * args.cols;
    if (args.mask_access_bytes >= 4) {
#pragma unroll
      for (int r = 0; r < R; r += 4) {
        // The first element's mark is the highest bit; it goes to the lowest byte.
        const unsigned four = chosen.words[r / 32] << (r % 32) >> 28;
        const unsigned bytes = (four >> 3 | four << 6 | four << 15 | four << 24) & 0x01010101u;
        if (col_of(r) < cols()) *reinterpret_cast<std::uint32_t*>(out_row + col_of(r)) = bytes;
      }
    } else {
#pragma unroll
      for (int w = 0; w < Marks<R>::kWords; ++w) {
        unsigned left = chosen.words[w];
#pragma unroll 1
        for (int r = 32 * w; r < min(R, 32 * w + 32); ++r, left <<= 1) {
          if (col_of(r) < cols()) out_row[col_of(r)] = static_cast<std::uint8_t>(left >> 31);
        }
      }
    }
  }

  __device__ void write_list() const {
    with_indices(args, row, [&](auto* indices) {
      using Index = std::remove_pointer_t<decltype(indices)>;
      if constexpr (sizeof(Index) >= 4) {
        if (args.writes_quads && k() >= 2 * G) {
          return write_quads(static_cast<T*>(args.values) + row * args.k, indices);
        }
      }
      // With many lanes for a row, the work of a lane matters more than coalescing across rows.
      if constexpr (G > 8) {
        write_row(static_cast<T*>(args.values) + row * args.k, indices);
      } else {
        write_rows<Index>();
      }
    });
  }

  template <class Index>
  __device__ void write_row(T* values, Index* indices) const {
#pragma unroll 1
    for (int i = Group::lane(); i < k(); i += G) {
      const int col = list[i];
      if (args.values != nullptr) values[i] = tile[place(col)];
      if (args.indices != nullptr) indices[i] = static_cast<Index>(col);
    }
  }

  /// Writes the results of all rows of the tile. They are contiguous in memory, so that neighbouring lanes write
  /// neighbouring results for any k.
  template <class Index>
  __device__ void write_rows() const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::int64_t first_row = __shfl_sync(kFullWarp, row, 0);
    const int list_cols = Config::list_cols(args.k, args.by_value);
    const std::uint16_t* lists = list - Group::index_in_warp() * list_cols;
    T* values = static_cast<T*>(args.values) + first_row * args.k;
    Index* indices = static_cast<Index*>(args.indices) + first_row * args.k;
    // Groups past the last row repeat an earlier one.
    const int rows = static_cast<int>(min(std::int64_t{Config::kRows}, args.rows - first_row));
    int group = 0;
    int i = lane;
#pragma unroll 1
    for (int at = lane; at < rows * k(); at += 32) {
      while (i >= k()) {
        i -= k();
        ++group;
      }
      const int col = lists[group * list_cols + i];
      if (args.values != nullptr) values[at] = tile[place(col, group)];
      if (args.indices != nullptr) indices[at] = static_cast<Index>(col);
      i += 32;
    }
  }

  /// A lane writes four results at a time.
  template <class Index>
  __device__ void write_quads(T* values, Index* indices) const {
    struct alignas(std::min(16, 4 * static_cast<int>(sizeof(T)))) Values {
      T of[4];
    };
    struct alignas(16) Indices {
      Index of[4];
    };
#pragma unroll 1
    for (int i = 4 * Group::lane(); i < k(); i += 4 * G) {
      const uint2 listed = *reinterpret_cast<const uint2*>(list + i);
      const unsigned columns[4] = {listed.x & 0xffffu, listed.x >> 16, listed.y & 0xffffu, listed.y >> 16};
      Values four_values;
      Indices four_indices;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        four_values.of[j] = tile[place(static_cast<int>(columns[j]))];
        four_indices.of[j] = static_cast<Index>(columns[j]);
      }
      *reinterpret_cast<Values*>(values + i) = four_values;
      *reinterpret_cast<Indices*>(indices + i) = four_indices;
    }
  }
};

}  // namespace rtopk::cuda
