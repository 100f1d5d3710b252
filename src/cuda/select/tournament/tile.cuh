// The rows of a warp of cuda_tournament in shared memory, and how results are written. select.cuh decides what to
// select.
#pragma once

#include <cstdint>

#include "core/keys.hpp"
#include "cuda/runtime/async_copy.cuh"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/element.cuh"
#include "plan/select/tuning_tournament.hpp"

namespace rtopk::cuda {

/// Neighbouring rows, one for each group of G lanes. The lanes of a row share its columns: each owns at most R
/// neighbouring ones, which are contiguous in shared memory.
template <class T, int G, int R, int K>
struct TournamentTile {
  using Config = TournamentConfig<T, G, R>;
  static constexpr int kMasks = R / 32;

  const SelectArguments& args;
  int stage;
  std::int64_t first_row;

  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ int k() const { return static_cast<int>(args.k); }
  __device__ int cols() const { return static_cast<int>(args.cols); }
  __device__ int share() const { return Config::share(cols()); }
  __device__ int first_col() const { return lane() % G * share(); }
  /// Columns that this lane owns; 0 or less if none.
  __device__ int own_cols() const { return min(share(), cols() - first_col()); }
  __device__ int rows() const {
    const std::int64_t left = args.rows - first_row;
    return left < Config::kRows ? static_cast<int>(left) : Config::kRows;
  }

  // Parts of the warp's shared memory. Each is derived from its beginning, so that the compiler always knows the
  // address space.

  static __device__ char* shared_of_warp() {
    extern __shared__ __align__(16) char shared[];
    return shared + threadIdx.x / 32 * Config::warp_bytes(K);
  }
  static __device__ T* elements_of_stage(int stage) {
    return reinterpret_cast<T*>(shared_of_warp() + stage * Config::kTileBytes);
  }
  __device__ T* elements_of(int owner) const { return elements_of_stage(stage) + owner * Config::kPitch; }
  /// Results of the tile's rows, k for each, row after row.
  static __device__ T* values() { return reinterpret_cast<T*>(shared_of_warp() + Config::kValuesAt); }
  static __device__ std::int32_t* columns() {
    return reinterpret_cast<std::int32_t*>(shared_of_warp() + Config::columns_at(K));
  }

  // ------------------------------------------------------------------------------------------------------------------
  // From global memory.

  /// Rows of the maximum length without gaps. `from`: this lane's first 16 bytes.
  __device__ void fetch_whole(const T* from) const {
    T* to = elements_of(lane() / Config::kVectors) + lane() % Config::kVectors * Config::kVector;
#pragma unroll
    for (int i = 0; i < Config::kVectors; ++i) {
      copy_async<16>(to + i * (32 / Config::kVectors) * Config::kPitch, from + i * 32 * Config::kVector);
    }
  }

  /// Rows of any length, stride and alignment.
  __device__ void fetch_any() const {
    const T* from = static_cast<const T*>(args.input) + first_row * args.stride;
    fetch_rows(stage, from, args.stride, rows(), cols(), args.access_bytes);
  }

  // Functions that are not inlined can use all registers and cost the others none. They take their inputs by value:
  // inside them the compiler would load a kernel's arguments from memory instead of using constants.

  static __device__ __noinline__ void fetch_rows(int stage, const T* from, std::int64_t stride, int rows, int cols,
                                                 int access_bytes) {
    T* to = elements_of_stage(stage);
    if (access_bytes == 16) return fetch_pieces<16>(to, from, stride, rows, cols);
    if (access_bytes == 8) return fetch_pieces<8>(to, from, stride, rows, cols);
    if (access_bytes == 4) return fetch_pieces<4>(to, from, stride, rows, cols);
    fetch_pieces<sizeof(T)>(to, from, stride, rows, cols);
  }

  /// Neighbouring lanes copy neighbouring pieces, across the ends of rows.
  template <int kBytes>
  static __device__ void fetch_pieces(T* all, const T* from, std::int64_t stride, int rows, int cols) {
    constexpr unsigned kPiece = kBytes / sizeof(T);
    // Pieces too small to copy asynchronously are loaded several at a time before the first is stored.
    constexpr int kAtOnce = kBytes >= 4 ? 1 : 8;
    const unsigned pieces = static_cast<unsigned>(cols) / kPiece;
    const unsigned of_lane = static_cast<unsigned>(Config::share(cols)) / kPiece;
    // Fixed-point reciprocals, exact for quotients of numbers below 1024 if one of the two is below 64.
    const unsigned over_pieces = 65536u / pieces + 1;
    const unsigned over_of_lane = 65536u / of_lane + 1;
    const unsigned step_rows = 32 * over_pieces >> 16;
    const unsigned step = 32 - step_rows * pieces;
    unsigned row = static_cast<unsigned>(lane()) * over_pieces >> 16;
    unsigned piece = static_cast<unsigned>(lane()) - row * pieces;
    const auto count = static_cast<unsigned>(rows);
    from += row * stride;
    const std::int64_t step_from = step_rows * stride;
#pragma unroll 1
    while (row < count) {
      T held[kAtOnce];
      int to[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const bool exists = i == 0 || row < count;
        const unsigned owner = piece * over_of_lane >> 16;
        const unsigned place = (row * G + owner) * Config::kPitch + (piece - owner * of_lane) * kPiece;
        to[i] = exists ? static_cast<int>(place) : -1;
        if constexpr (kBytes >= 4) {
          copy_async<kBytes>(all + place, from + piece * kPiece);
        } else if (exists) {
          held[i] = from[piece];
        }
        row += step_rows;
        from += step_from;
        piece += step;
        if (piece >= pieces) {
          piece -= pieces;
          ++row;
          from += stride;
        }
      }
      if constexpr (kBytes < 4) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (to[i] >= 0) all[to[i]] = held[i];
        }
      }
    }
  }

  /// Fills the places past a lane's columns with a value that no element comes after. Copies do not touch them, so they
  /// are written once.
  __device__ void pad() const {
    using Bits = core::KeyOf<T>;
    Bits bits;
    if constexpr (core::is_floating<T>) {
      constexpr Bits infinity = core::ElementTraits<T>::infinity_bits;
      bits = args.smallest ? infinity : static_cast<Bits>(infinity | (Bits{1} << (8 * sizeof(Bits) - 1)));
    } else {
      bits = args.smallest ? 0x7fffffffu : 0x80000000u;
    }
    auto* mine = reinterpret_cast<Bits*>(elements_of(lane()));
    int i = max(0, own_cols());
#pragma unroll 1
    for (; i % Config::kVector != 0; ++i) mine[i] = bits;
    const std::uint32_t word = sizeof(Bits) == 2 ? bits * 0x00010001u : bits;
#pragma unroll 1
    for (; i < R; i += Config::kVector) *reinterpret_cast<uint4*>(mine + i) = make_uint4(word, word, word, word);
  }

  // ------------------------------------------------------------------------------------------------------------------
  // To global memory.

  /// Writes the elements marked in their lanes, the first element's mark in the highest bit. `before`: marked elements
  /// of the row in lower lanes.
  __device__ void write(const unsigned (&marks)[kMasks], int before) const {
    if (args.passes != nullptr && lane() < rows()) args.passes[first_row + lane()] = 1;
    if (args.form == Form::dense || args.form == Form::mask) {
      return write_matrix(args, stage, first_row, marks[0], marks[kMasks - 1]);
    }
    const std::int64_t first = first_row * args.k;
    T* values = args.values == nullptr ? nullptr : static_cast<T*>(args.values) + first;
    char* indices = static_cast<char*>(args.indices);
    if (indices != nullptr) indices += first * bytes_of(args.index_type);
    write_pairs(stage, first_col(), marks[0], marks[kMasks - 1], lane() / G * k() + before, values, indices,
                args.index_type, rows() * k(), args.by_value ? k() : 0, args.smallest);
  }

  static __device__ int bytes_of(IndexType type) {
    return type == IndexType::i64 ? 8 : type == IndexType::i32 ? 4 : type == IndexType::u16 ? 2 : 1;
  }

  /// `ordered`: k if the results must be sorted by value, else 0.
  static __device__ __noinline__ void write_pairs(int stage, int first_col, unsigned first_marks, unsigned last_marks,
                                                  int position, T* values_to, char* indices_to, IndexType index_type,
                                                  int count, int ordered, bool smallest) {
    unsigned marks[kMasks];
    marks[kMasks - 1] = last_marks;
    marks[0] = first_marks;
    list(elements_of_stage(stage) + lane() * Config::kPitch, first_col, marks, position);
    __syncwarp();
    if (ordered != 0) order_results(ordered, smallest);
    if (values_to != nullptr) write_values(values_to, count);
    if (indices_to == nullptr) return;
    switch (index_type) {
      case IndexType::i32: write_columns(reinterpret_cast<std::int32_t*>(indices_to), count); break;
      case IndexType::i64: write_columns(reinterpret_cast<std::int64_t*>(indices_to), count); break;
      case IndexType::u8: write_columns(reinterpret_cast<std::uint8_t*>(indices_to), count); break;
      case IndexType::u16: write_columns(reinterpret_cast<std::uint16_t*>(indices_to), count); break;
    }
  }

  /// Lists marked elements and their columns in index order, from `position` on.
  static __device__ void list(const T* elements, int first_col, unsigned (&marks)[kMasks], int position) {
    T* value = values() + position;
    std::int32_t* column = columns() + position;
#pragma unroll 1
    while (true) {
      int at;
      if constexpr (kMasks == 1) {
        if (marks[0] == 0) break;
        at = __clz(static_cast<int>(marks[0]));
        marks[0] &= ~(0x80000000u >> at);
      } else {
        if ((marks[0] | marks[1]) == 0) break;
        const bool second = marks[0] == 0;
        const int bit = __clz(static_cast<int>(second ? marks[1] : marks[0]));
        const unsigned cleared = 0x80000000u >> bit;
        marks[1] = second ? marks[1] & ~cleared : marks[1];
        marks[0] = marks[0] & ~cleared;
        at = second ? bit + 32 : bit;
      }
      *value++ = elements[at];
      *column++ = first_col + at;
    }
  }

  // Write the results of all rows together, in accesses as wide as the address allows.

  static __device__ void write_values(T* to, int count) {
    if (reinterpret_cast<std::uintptr_t>(to) % 16 == 0 && count % Config::kVector == 0) {
#pragma unroll 1
      for (int i = lane() * Config::kVector; i < count; i += 32 * Config::kVector) {
        *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(values() + i);
      }
    } else {
#pragma unroll 1
      for (int i = lane(); i < count; i += 32) to[i] = values()[i];
    }
  }

  template <class Index>
  static __device__ void write_columns(Index* to, int count) {
    constexpr unsigned kAlignment = sizeof(Index) == 8 ? 16 : 4 * sizeof(Index);
    if (reinterpret_cast<std::uintptr_t>(to) % kAlignment == 0 && count % 4 == 0) {
#pragma unroll 1
      for (int i = lane() * 4; i < count; i += 128) {
        const int4 four = *reinterpret_cast<const int4*>(columns() + i);
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
      for (int i = lane(); i < count; i += 32) to[i] = static_cast<Index>(columns()[i]);
    }
  }

  /// Sorts the results of every row, largest first: the rank of a result is the number of results before it. K
  /// neighbouring lanes hold those of a row.
  static __device__ void order_results(int k, bool smallest) {
    const int number = lane() % K;
#pragma unroll 1
    for (int first = 0; first < Config::kRows; first += 32 / K) {
      const int row = first + lane() / K;
      const bool exists = number < k && row < Config::kRows;
      T value{};
      std::int32_t column = 0;
      std::uint32_t key = 0;
      if (exists) {
        value = values()[row * k + number];
        column = columns()[row * k + number];
        key = Element<T>::sort_key(Element<T>::value(value));
        if (smallest) key = ~key;
      }
      int rank = 0;
#pragma unroll
      for (int i = 0; i < K; ++i) {
        const std::uint32_t other = __shfl_sync(kFullWarp, key, i, K);
        rank += other > key || (other == key && i < number) ? 1 : 0;
      }
      __syncwarp();
      if (exists) {
        values()[row * k + rank] = value;
        columns()[row * k + rank] = column;
      }
    }
    __syncwarp();
  }

  static __device__ __noinline__ void write_matrix(const SelectArguments& args, int stage, std::int64_t first_row,
                                                   unsigned first_marks, unsigned last_marks) {
    unsigned marks[kMasks];
    marks[kMasks - 1] = last_marks;
    marks[0] = first_marks;
    const TournamentTile tile{args, stage, first_row};
    if (args.form == Form::dense) {
      tile.write_dense(marks);
    } else {
      tile.write_mask(marks);
    }
  }

  __device__ void write_dense(const unsigned (&marks)[kMasks]) const {
    T* out = static_cast<T*>(args.dense) + first_row * args.cols;
    for_each_vector(marks, [&](int row, int col, const T* from, unsigned chosen) {
      union {
        uint4 bits;
        T raw[Config::kVector];
      } vector;
      vector.bits = *reinterpret_cast<const uint4*>(from);
#pragma unroll
      for (int j = 0; j < Config::kVector; ++j) {
        if ((chosen << j & 0x80000000u) == 0) vector.raw[j] = T{};
      }
      T* to = out + row * args.cols + col;
      if (args.dense_access_bytes == 16) {
        *reinterpret_cast<uint4*>(to) = vector.bits;
      } else {
#pragma unroll
        for (int j = 0; j < Config::kVector; ++j) {
          if (col + j < cols()) to[j] = vector.raw[j];
        }
      }
    });
  }

  __device__ void write_mask(const unsigned (&marks)[kMasks]) const {
    std::uint8_t* out = args.mask + first_row * args.cols;
    const bool aligned = (reinterpret_cast<std::uintptr_t>(args.mask) | static_cast<unsigned>(cols())) % 4 == 0;
    for_each_vector(marks, [&](int row, int col, const T*, unsigned chosen) {
      std::uint8_t* to = out + row * args.cols + col;
#pragma unroll
      for (int j = 0; j < Config::kVector; j += 4) {
        // Four copies of four bits, each shifted by one byte and one bit: the lowest bit of each byte is a different
        // one of the four.
        const unsigned four = (chosen << j >> 28) * 0x08040201u >> 3 & 0x01010101u;
        if (aligned) {
          if (col + j < cols()) *reinterpret_cast<unsigned*>(to + j) = four;
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (col + j + i < cols()) to[j + i] = static_cast<std::uint8_t>(four >> (8 * i));
          }
        }
      }
    });
  }

  /// Calls `f` for all vectors of the tile, neighbouring vectors in neighbouring lanes, with the marks of each from bit
  /// 31 down.
  template <class F>
  __device__ void for_each_vector(const unsigned (&marks)[kMasks], F f) const {
#pragma unroll 1
    for (int i = 0; i < Config::kVectors; ++i) {
      const int number = i * 32 + lane();
      const int owner = number / Config::kVectors;
      const int element = number % Config::kVectors * Config::kVector;
      unsigned chosen = __shfl_sync(kFullWarp, marks[0], owner);
      if constexpr (kMasks == 2) {
        const unsigned second = __shfl_sync(kFullWarp, marks[1], owner);
        if (element >= 32) chosen = second;
      }
      const int row = owner / G;
      const int col = owner % G * share() + element;
      if (row < rows() && element < share() && col < cols())
        f(row, col, elements_of(owner) + element, chosen << element % 32);
    }
  }
};

}  // namespace rtopk::cuda
