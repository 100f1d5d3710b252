// A row that begins and ends at multiples of 16 bytes, held by G lanes of a warp: where its elements lie in shared memory,
// and how dense rows and masks are written. Without that alignment the same layout works, but copies are slow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/runtime/async_copy.cuh"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/element.cuh"
#include "cuda/select/marks.cuh"
#include "plan/select/tuning_warp.hpp"

namespace rtopk::cuda {

template <class T, int G, int R>
struct AlignedRow {
  using Type = T;
  using Arguments = SelectArguments;
  static constexpr int kElements = R;  ///< Of a lane.
  static constexpr bool kStopsEarly = true;
  using Config = AlignedConfig<T, G, R>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Group = LaneGroup<G>;
  using Marked = Marks<R>;

  const SelectArguments& args;
  T* tile;              ///< The current rows, in shared memory.
  std::uint16_t* list;  ///< Columns of this group's row.
  std::int64_t row;

  static __device__ int stage_bytes(const SelectArguments&) { return Config::kTileBytes; }

  __device__ AlignedRow(const SelectArguments& arguments, char* stage, std::uint16_t* columns, std::int64_t number)
      : args(arguments), tile(reinterpret_cast<T*>(stage)), list(columns), row(number) {}

  __device__ int cols() const { return static_cast<int>(args.cols); }
  __device__ int k() const { return static_cast<int>(args.k); }
  __device__ const Expectation& expectation() const { return args.expectation; }
  static __device__ int passes_of(int passes) { return passes; }

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
  /// All that a lane holds is its own: no mark needs to be cleared.
  struct Own {
    static __device__ Marks<R> of(const Marks<R>& marks) { return marks; }
    static __device__ Marks<R> inside_of(const AlignedRow& row) { return row.inside(); }
  };
  static __device__ Own own() { return {}; }
  /// True if some lanes hold padding.
  __device__ bool is_padded() const { return cols() != Config::kCols; }
  /// False if padding may begin in the middle of a vector.
  __device__ bool has_whole_vectors() const { return cols() % Config::kVector == 0; }
  static __device__ bool has_foreign_first() { return false; }
  static __device__ bool has_foreign_last() { return false; }
  /// True if the lane's elements up to the r-th lie inside the row.
  __device__ bool is_whole(int r) const { return col_of(r) < cols(); }

  static __device__ int col_of(int r) { return Group::lane() * R + r; }
  __device__ T at(int col) const { return tile[place(col)]; }
  __device__ T at(int col, int group, std::int64_t) const { return tile[place(col, group)]; }

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

  /// The lane's elements, two of 16 bits in a word.
  template <int kNumber>
  __device__ void load_words(unsigned (&words)[kNumber]) const {
#pragma unroll
    for (int i = 0; i < Config::kVectors; ++i) {
      const uint4 loaded = vector_at(i).bits;
      words[4 * i] = loaded.x;
      words[4 * i + 1] = loaded.y;
      words[4 * i + 2] = loaded.z;
      words[4 * i + 3] = loaded.w;
    }
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
  static __device__ void pad(const SelectArguments& args, char* stage) {
    const int cols = static_cast<int>(args.cols);
    if (cols == Config::kCols) return;
    using Bits = core::KeyOf<T>;
    Bits bits;
    if constexpr (core::is_floating<T>) {
      constexpr Bits infinity = core::ElementTraits<T>::infinity_bits;
      bits = args.smallest ? infinity : static_cast<Bits>(infinity | (Bits{1} << (8 * sizeof(Bits) - 1)));
    } else {
      bits = args.smallest ? 0x7fffffffu : 0x80000000u;
    }
    auto* elements = reinterpret_cast<Bits*>(stage);
#pragma unroll 1
    for (int col = cols + Group::lane(); col < Config::kCols; col += G) elements[place(col)] = bits;
  }

  /// Starts to copy a row into the tile.
  static __device__ void fetch(const SelectArguments& args, char* to, std::int64_t row) {
    T* tile = reinterpret_cast<T*>(to);
    const T* from = static_cast<const T*>(args.input) + row * args.stride;
    if (args.access_bytes != 16) {
      fetch_narrow(from, tile, static_cast<int>(args.cols), args.access_bytes);
    } else if (args.cols < Config::kCols) {
      fetch_vectors<true, false>(args, tile, from);
    } else if (args.spares_cache) {
      __syncwarp();  // makes the compiler branch here instead of predicating sixteen copies twice
      fetch_vectors<false, true>(args, tile, from);
    } else {
      fetch_vectors<false, false>(args, tile, from);
    }
    commit_copies();
  }

  template <bool kShorter, bool kSparesCache>
  static __device__ void fetch_vectors(const SelectArguments& args, T* tile, const T* from) {
    const int first = Config::place_of_vector(Group::index_in_warp() * G * Config::kVectors + Group::lane());
    const std::uint32_t mine = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile)) + 16 * first;
    from = opaque(from + Group::lane() * Config::kVector);  // one address, with distances known at compile time
#pragma unroll
    for (int i = 0; i < Config::kVectors; ++i) {
      if (!kShorter || (i * G + Group::lane()) * Config::kVector < static_cast<int>(args.cols)) {
        // As in vector_address: the bits of the lane's and the copy's index do not overlap.
        const int distance = Config::place_of_vector(i * G);
        const std::uint32_t address =
            Config::kSwizzled ? (mine ^ (distance % 8 * 16)) + distance / 8 * 128 : mine + distance * 16;
        copy_async_once<kSparesCache>(address, from + i * G * Config::kVector);
      }
    }
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
  __device__ Marks<R> inside() const { return Marks<R>::first(cols() - Group::lane() * R); }

  __device__ void write_dense(const Marks<R>& chosen) const {
    // Goes through the tile, so that neighbouring lanes write neighbouring vectors. The padding past the end of the row
    // must stay.
    const Marks<R> kept = chosen | Marks<R>::first(R).without(inside());
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
};

}  // namespace rtopk::cuda
