// A row in the hands of G lanes of a warp: where its elements lie, positions in index order, and the ways to write a
// selection. What to select is the business of warp_select.cuh and warp_search.cuh.
#pragma once

#include <cstdint>
#include <type_traits>

#include "async_copy.cuh"
#include "call.hpp"
#include "element.cuh"
#include "lane_group.cuh"
#include "result_row.cuh"
#include "warp_shape.hpp"

namespace rtopk::cuda {

template <class T, int G, int R>
struct WarpRow {
  using Shape = WarpShape<T, G, R>;
  using E = Element<T>;
  using Value = typename E::Value;
  using SortKey = typename E::SortKey;
  using Group = LaneGroup<G>;

  const Call& call;
  T* tile;              ///< The rows at hand, in shared memory.
  std::uint16_t* list;  ///< Columns of this group's row.
  std::int64_t row;

  __device__ int cols() const { return static_cast<int>(call.cols); }
  __device__ int k() const { return static_cast<int>(call.k); }

  // ------------------------------------------------------------------------------------------------------------------
  // Rows in shared memory: chunk by chunk, 16 bytes of each lane next to each other, so that no access has conflicts.

  static __device__ int place(int col) {
    if constexpr (G == 32) {
      return col;
    } else {
      return col % Shape::kChunkCols + Group::index_in_warp() * Shape::kChunkCols +
             col / Shape::kChunkCols * (Shape::kVector * 32);
    }
  }
  static __device__ int col_of(int chunk, int j) {
    return chunk * Shape::kChunkCols + Group::lane() * Shape::kVector + j;
  }
  static __device__ int col_of(int r) { return col_of(r / Shape::kVector, r % Shape::kVector); }

  union Chunk {
    uint4 bits;
    T raw[Shape::kVector];
  };

  __device__ Chunk raw_chunk(int chunk) const {
    Chunk loaded;
    loaded.bits = *reinterpret_cast<const uint4*>(tile + chunk * Shape::kVector * 32 +
                                                  static_cast<int>(threadIdx.x % 32) * Shape::kVector);
    return loaded;
  }

  __device__ void load(Value (&x)[R]) const {
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      const Chunk loaded = raw_chunk(chunk);
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) x[chunk * Shape::kVector + j] = E::value(loaded.raw[j]);
    }
    if (call.smallest) {
#pragma unroll
      for (int r = 0; r < R; ++r) x[r] = E::reversed(x[r]);
    }
  }

  __device__ Value value_at(int col) const {
    const Value x = E::value(tile[place(col)]);
    return call.smallest ? E::reversed(x) : x;
  }

  /// What lies behind the end of a row can never be selected. Copies do not touch it, so it is written once.
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
    for (int col = cols + Group::lane(); col < Shape::kCols; col += G) elements[place(col)] = bits;
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
  // Positions in index order. A lane's elements of one chunk are neighbours, so what is needed is, for each chunk, how many
  // come in the chunks before it and in the lanes below. The counts of several chunks are summed in one word.

  static constexpr int kFieldBits = Shape::kChunkCols <= 128 && Shape::kChunks > 2 ? 8 : 16;
  static constexpr int kFields = 32 / kFieldBits;
  static constexpr int kWords = (Shape::kChunks + kFields - 1) / kFields;
  static constexpr unsigned kFieldMask = (1u << kFieldBits) - 1u;

  struct Positions {
    int first[Shape::kChunks];  ///< Of this lane's first element in a chunk.
    int total;
  };

  static __device__ Positions positions(const unsigned (&counts)[Shape::kChunks]) {
    Positions result;
    int base = 0;
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      unsigned packed = 0;
#pragma unroll
      for (int field = 0; field < kFields && word * kFields + field < Shape::kChunks; ++field) {
        packed += counts[word * kFields + field] << (field * kFieldBits);
      }
      const unsigned inclusive = Group::inclusive_sum(packed);
      const unsigned below = inclusive - packed;
      const unsigned totals = Group::from_lane(inclusive, G - 1);
#pragma unroll
      for (int field = 0; field < kFields && word * kFields + field < Shape::kChunks; ++field) {
        result.first[word * kFields + field] = base + static_cast<int>((below >> (field * kFieldBits)) & kFieldMask);
        base += static_cast<int>((totals >> (field * kFieldBits)) & kFieldMask);
      }
    }
    result.total = base;
    return result;
  }

  static __device__ Positions positions_of(unsigned chosen) {
    unsigned counts[Shape::kChunks];
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      counts[chunk] = static_cast<unsigned>(__popc(chosen >> (chunk * Shape::kVector) & ((1u << Shape::kVector) - 1u)));
    }
    return positions(counts);
  }

  /// Of the elements in `eligible` (a bit for each register) the first `quota` in index order.
  static __device__ unsigned first_in_index_order(unsigned eligible, int quota) {
    const Positions at = positions_of(eligible);
    return within_quota<Shape::kVector>(eligible, at.first, quota);
  }

  // ------------------------------------------------------------------------------------------------------------------
  // Writing what was chosen: a bit for each register.

  __device__ void write(unsigned chosen) const {
    if (call.form == Form::dense) return write_dense(chosen);
    if (call.form == Form::mask) return write_mask(chosen);
    list_chosen(chosen);
    write_list();
  }

  /// The first k of those.
  __device__ void write_first(unsigned eligible) const {
    if (call.form == Form::dense || call.form == Form::mask) return write(first_in_index_order(eligible, k()));
    list_chosen(eligible);
    write_list();
  }

  __device__ void list_chosen(unsigned chosen) const {
    const Positions at = positions_of(chosen);
    __syncwarp();
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      auto next = static_cast<std::uint32_t>(__cvta_generic_to_shared(list + at.first[chunk]));
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        push_if((chosen & 1u << (chunk * Shape::kVector + j)) != 0, next, col_of(0, 0), chunk * Shape::kChunkCols + j);
      }
    }
    __syncwarp();
  }

  __device__ void write_dense(unsigned chosen) const {
    T* out_row = static_cast<T*>(call.dense) + row * call.cols;
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      Chunk out = raw_chunk(chunk);
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        if ((chosen >> (chunk * Shape::kVector + j) & 1u) == 0) out.raw[j] = T{};
      }
      const int col = col_of(chunk, 0);
      if (call.dense_access_bytes == 16) {
        if (col < cols()) *reinterpret_cast<uint4*>(out_row + col) = out.bits;
      } else {
#pragma unroll
        for (int j = 0; j < Shape::kVector; ++j) {
          if (col + j < cols()) out_row[col + j] = out.raw[j];
        }
      }
    }
  }

  __device__ void write_mask(unsigned chosen) const {
    std::uint8_t* out_row = call.mask + row * call.cols;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (col_of(r) < cols()) out_row[col_of(r)] = static_cast<std::uint8_t>(chosen >> r & 1u);
    }
  }

  /// The columns of ranks lane * C .. lane * C + C - 1 of the list, as wide loads.
  template <int C>
  __device__ void listed(int (&columns)[C]) const {
    union {
      uint4 quads[(C + 7) / 8];
      std::uint32_t words[(C + 1) / 2];
      std::uint16_t column[C];
    } loaded;
    const std::uint16_t* mine = list + Group::lane() * C;
    if constexpr (C >= 8) {
#pragma unroll
      for (int i = 0; i < C / 8; ++i) loaded.quads[i] = reinterpret_cast<const uint4*>(mine)[i];
    } else if constexpr (C >= 2) {
#pragma unroll
      for (int i = 0; i < C / 2; ++i) loaded.words[i] = reinterpret_cast<const std::uint32_t*>(mine)[i];
    } else {
      loaded.column[0] = mine[0];
    }
#pragma unroll
    for (int j = 0; j < C; ++j) columns[j] = loaded.column[j];
  }

  /// Writes the k listed columns, which are in ascending order.
  __device__ void write_list() const {
    if (call.by_value) order_list_by_value(call, row, tile, list);
    write_list_as_it_is();
  }

  __device__ void write_list_as_it_is() const {
    T* values = static_cast<T*>(call.values) + row * call.k + Group::lane();
    with_indices(call, row, [&](auto* indices) {
      indices += Group::lane();
      if (call.values != nullptr && call.indices != nullptr) return write_pairs<true, true>(values, indices);
      if (call.values != nullptr) return write_pairs<true, false>(values, indices);
      return write_pairs<false, true>(values, indices);
    });
  }

  template <bool kValues, bool kIndices, class Index>
  __device__ void write_pairs(T* values, Index* indices) const {
#pragma unroll 1
    for (int i = Group::lane(); i < k(); i += G) {
      const int col = list[i];
      if constexpr (kValues) *values = tile[place(col)];
      if constexpr (kIndices) *indices = static_cast<Index>(col);
      values += G;
      indices += G;
    }
  }

  __device__ SortKey order_key(int col) const {
    return static_cast<SortKey>(directed_key(tile[place(col)], call.smallest));
  }

  /// Puts the list in order, best first. Not inlined, so that it has the registers to itself.
  static __device__ __noinline__ void order_list_by_value(const Call& call, std::int64_t row, T* tile,
                                                          std::uint16_t* list) {
    const WarpRow self{call, tile, list, row};
    constexpr int C = Shape::kSortedPerLane;
    if (self.k() <= G && self.template order_list<1>()) return;
    if (C >= 8 && self.k() <= G * C / 4) {
      self.template order_list<C >= 8 ? C / 4 : C>();
    } else if (self.k() <= G * C / 2) {
      self.template order_list<C / 2>();
    } else {
      self.template order_list<C>();
    }
  }

  /// What is sorted is the key's distance from the least of them, cut to the bits that a word has room for beside the
  /// position. Where the cut has made neighbours of different keys look equal, they are exchanged afterwards; with one for
  /// each lane that is left to the caller, who gets false then.
  template <int C>
  __device__ bool order_list() const {
    constexpr int kPositionBits = 7;
    constexpr int kKeyBits = static_cast<int>(8 * sizeof(SortKey)) - kPositionBits;
    constexpr SortKey kPositionMask = (SortKey{1} << kPositionBits) - 1;
    SortKey keys[C];
    int columns[C];
    listed(columns);
    SortKey least = ~SortKey{0};
    SortKey greatest = 0;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      keys[j] = 0;
      if (Group::lane() * C + j < k()) {
        keys[j] = order_key(columns[j]);
        least = keys[j] < least ? keys[j] : least;
        greatest = keys[j] > greatest ? keys[j] : greatest;
      }
    }
    least = Group::least(least);
    greatest = Group::greatest(greatest);
    const SortKey range = greatest - least;
    int shift = 0;
    if constexpr (sizeof(SortKey) == 8) {
      shift = max(0, 64 - __clzll(static_cast<long long>(range)) - (kKeyBits - 1));
    } else {
      shift = max(0, 32 - __clz(static_cast<int>(range)) - (kKeyBits - 1));
    }
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int i = Group::lane() * C + j;
      // 1 more than the distance, so that a place without an element comes last.
      keys[j] = i < k()
                    ? ((((keys[j] - least) >> shift) + 1) << kPositionBits) | (kPositionMask - static_cast<SortKey>(i))
                    : SortKey{0};
    }
    Group::sort_descending(keys);

#pragma unroll
    for (int j = 0; j < C; ++j) {
      const bool is_result = Group::lane() * C + j < k();
      columns[j] = is_result ? list[static_cast<int>(kPositionMask - (keys[j] & kPositionMask))] : Shape::kCols;
      keys[j] = is_result ? order_key(columns[j]) : SortKey{0};
    }
    if constexpr (C == 1) {
      const SortKey above = __shfl_up_sync(kWholeWarp, keys[0], 1, G);
      if (__any_sync(kWholeWarp, Group::lane() > 0 && above < keys[0])) return false;
    } else {
      while (exchange_neighbours(keys, columns)) {
      }
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int i = Group::lane() * C + j;
      if (i < k()) list[i] = static_cast<std::uint16_t>(columns[j]);
    }
    __syncwarp();
    return true;
  }

  /// One round of exchanges between ranks r and r + 1. False if all were in order already, in all rows of the warp.
  template <int C>
  static __device__ bool exchange_neighbours(SortKey (&keys)[C], int (&columns)[C]) {
    bool exchanged = false;
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
#pragma unroll
      for (int j = odd; j + 1 < C; j += 2) {
        if (keys[j] < keys[j + 1] || (keys[j] == keys[j + 1] && columns[j] > columns[j + 1])) {
          const SortKey key = keys[j];
          const int column = columns[j];
          keys[j] = keys[j + 1];
          columns[j] = columns[j + 1];
          keys[j + 1] = key;
          columns[j + 1] = column;
          exchanged = true;
        }
      }
    }
    const SortKey key_above = __shfl_up_sync(kWholeWarp, keys[C - 1], 1, G);
    const int column_above = __shfl_up_sync(kWholeWarp, columns[C - 1], 1, G);
    const SortKey key_below = __shfl_down_sync(kWholeWarp, keys[0], 1, G);
    const int column_below = __shfl_down_sync(kWholeWarp, columns[0], 1, G);
    const bool takes_above =
        Group::lane() > 0 && (key_above < keys[0] || (key_above == keys[0] && column_above > columns[0]));
    const bool takes_below = Group::lane() < G - 1 &&
                             (keys[C - 1] < key_below || (keys[C - 1] == key_below && columns[C - 1] > column_below));
    static_assert(C > 1);  // so that a lane's exchanges with its two neighbours do not meet
    if (takes_above) {
      keys[0] = key_above;
      columns[0] = column_above;
    }
    if (takes_below) {
      keys[C - 1] = key_below;
      columns[C - 1] = column_below;
    }
    return __any_sync(kWholeWarp, exchanged || takes_above || takes_below);
  }
};

}  // namespace rtopk::cuda
