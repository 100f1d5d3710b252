// The rows of a warp of cuda_tournament in shared memory, and how their elements are loaded and written, if rows begin
// and end at multiples of 16 bytes. select.cuh decides what to select.
#pragma once

#include <cstdint>

#include "core/keys.hpp"
#include "cuda/runtime/async_copy.cuh"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/tournament/element.cuh"
#include "cuda/select/tournament/results.cuh"
#include "plan/select/tuning_tournament.hpp"

namespace rtopk::cuda {

/// With what depends on the number of columns alone: in a kernel, constants.
struct TournamentArguments : SelectArguments {
  int share;              ///< Columns of a lane.
  unsigned over_vectors;  ///< Fixed-point reciprocal of the vectors of a row.
  unsigned over_of_lane;  ///< Of the vectors of a lane. Exact for quotients of numbers below 1024 if one is below 64.
  int pitch_bytes;        ///< From one lane's first element to the next lane's.
  int warp_bytes;

  template <class Config>
  static TournamentArguments of(const SelectArguments& args, int most_k) {
    const auto cols = static_cast<int>(args.cols);
    TournamentArguments result{args};
    result.share = Config::share(cols);
    result.over_vectors = 65536u / static_cast<unsigned>(cols / Config::kVector) + 1;
    result.over_of_lane = 65536u / static_cast<unsigned>(result.share / Config::kVector) + 1;
    result.pitch_bytes = Config::stage_bytes(cols) / 32;
    result.warp_bytes = Config::warp_bytes(most_k, cols);
    return result;
  }
};

/// Neighbouring rows, one for each group of G lanes. The lanes of a row share its columns: each owns at most R
/// neighbouring ones, which are contiguous in shared memory.
template <class T, int G, int R, int K>
struct TournamentTile {
  using Type = T;
  using Arguments = TournamentArguments;
  using Config = TournamentConfig<T, G, R>;
  using Results = TournamentResults<T, G, R, K>;
  using E = TournamentElement<T>;
  using Word = typename E::Word;
  static constexpr int kLanes = G;
  static constexpr int kList = K;
  static constexpr int kMasks = (R + 31) / 32;
  static constexpr int kWords = R / E::kPerWord;
  static constexpr int kUnit = 8;  ///< Words that are searched at a time.
  static constexpr bool kStopsEarly = true;

  const TournamentArguments& args;
  int stage;
  std::int64_t first_row;

  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ int k() const { return static_cast<int>(args.k); }
  __device__ int cols() const { return static_cast<int>(args.cols); }
  __device__ int first_col() const { return lane() % G * args.share; }
  /// Columns that this lane owns; 0 or less if none.
  __device__ int own_cols() const { return min(args.share, cols() - first_col()); }
  __device__ int rows() const {
    const std::int64_t left = args.rows - first_row;
    return left < Config::kRows ? static_cast<int>(left) : Config::kRows;
  }

  /// The warp's part begins with the lists.
  __device__ int warp_at() const { return static_cast<int>(threadIdx.x / 32) * args.warp_bytes; }
  __device__ int elements_at(int owner) const {
    return warp_at() + Config::lists_bytes(K) + (stage * 32 + owner) * args.pitch_bytes;
  }
  __device__ T* elements_of(int owner) const { return reinterpret_cast<T*>(tournament_memory() + elements_at(owner)); }

  // ------------------------------------------------------------------------------------------------------------------
  // From global memory.

  /// Rows of the maximum length without gaps. `from`: this lane's first 16 bytes.
  __device__ void fetch_whole(const T* from) const {
    constexpr int kPitch = Config::pitch(Config::kCols);
    T* to = elements_of(lane() / Config::kVectors) + lane() % Config::kVectors * Config::kVector;
#pragma unroll
    for (int i = 0; i < Config::kVectors; ++i) {
      copy_async<16>(to + i * (32 / Config::kVectors) * kPitch, from + i * 32 * Config::kVector);
    }
  }

  /// Rows of any length and stride.
  __device__ void fetch_any() const {
    const T* from = static_cast<const T*>(args.input) + first_row * args.stride;
    fetch_rows(elements_at(0), from, args.stride, rows(), static_cast<unsigned>(cols()) / Config::kVector,
               args.over_vectors, static_cast<unsigned>(args.share) / Config::kVector, args.over_of_lane,
               static_cast<unsigned>(args.pitch_bytes));
  }

  /// Neighbouring lanes copy neighbouring vectors, across the ends of rows.
  static __device__ __noinline__ void fetch_rows(int to, const T* from, std::int64_t stride, int rows, unsigned vectors,
                                                 unsigned over_vectors, unsigned of_lane, unsigned over_of_lane,
                                                 unsigned pitch_bytes) {
    constexpr unsigned kVector = Config::kVector;
    char* all = tournament_memory() + to;
    const unsigned step_rows = 32 * over_vectors >> 16;
    const unsigned step = 32 - step_rows * vectors;
    unsigned row = static_cast<unsigned>(lane()) * over_vectors >> 16;
    unsigned vector = static_cast<unsigned>(lane()) - row * vectors;
    from += row * stride;
    const std::int64_t step_from = step_rows * stride;
#pragma unroll 1
    while (row < static_cast<unsigned>(rows)) {
      const unsigned owner = G == 1 ? 0 : vector * over_of_lane >> 16;
      copy_async<16>(all + ((row * G + owner) * pitch_bytes + (vector - owner * of_lane) * 16),
                     from + vector * kVector);
      row += step_rows;
      from += step_from;
      vector += step;
      if (vector >= vectors) {
        vector -= vectors;
        ++row;
        from += stride;
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
    for (; i < args.share; i += Config::kVector)
      *reinterpret_cast<uint4*>(mine + i) = make_uint4(word, word, word, word);
  }

  // ------------------------------------------------------------------------------------------------------------------
  // This lane's elements.

  /// Loads words from number `first` on.
  template <bool kPlain, int N>
  __device__ void load(int first, Word (&x)[N]) const {
    const auto* from = reinterpret_cast<const uint4*>(elements_of(lane())) + first / 4;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const uint4 four = from[i / 4];
      x[i] = E::from_bits(four.x);
      x[i + 1] = E::from_bits(four.y);
      x[i + 2] = E::from_bits(four.z);
      x[i + 3] = E::from_bits(four.w);
    }
    if constexpr (!kPlain) {
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = E::directed(x[i], args.smallest);
    }
  }

  /// Calls `f` for one list of words after the other, with the number of calls before.
  template <bool kPlain, class F>
  __device__ void for_each_list(F f) const {
    constexpr int kUnroll = K <= kUnit ? kWords / kUnit : 1;  // longer lists are much code
    const int words = args.share / E::kPerWord;
    add_unit<kPlain>(0, f);
#pragma unroll kUnroll
    for (int unit = kUnit; unit < kWords; unit += kUnit) {
      if (unit < words) add_unit<kPlain>(unit, f);
    }
  }
  template <bool kPlain, class F>
  __device__ void add_unit(int first, F f) const {
    constexpr int kLength = K < kUnit ? K : kUnit;
    Word x[kUnit];
    load<kPlain>(first, x);
#pragma unroll
    for (int part = 0; part < kUnit; part += kLength) {
      Word list[kLength];
#pragma unroll
      for (int i = 0; i < kLength; ++i) list[i] = x[part + i];
      f(list, (first + part) / kLength);
    }
  }

  /// The least of this lane's elements, or of each half of its words.
  template <bool kPlain>
  __device__ Word least() const {
    constexpr int kAtATime = 4;  // one access, which lies inside the row or outside
    Word found = E::greatest();
#pragma unroll
    for (int first = 0; first < kWords; first += kAtATime) {
      if (first * E::kPerWord < own_cols()) {
        Word x[kAtATime];
        load<kPlain>(first, x);
#pragma unroll
        for (int i = 0; i < kAtATime; ++i) found = E::lesser(found, x[i]);
      }
    }
    return found;
  }

  /// Marks elements by `f`, which gives a bit for each of some words, the first in the highest bit: for each set of marks
  /// by its number.
  template <bool kPlain, int kSets, class F>
  __device__ void mark(unsigned (&marks)[kSets][kMasks], F f) const {
#pragma unroll
    for (int i = 0; i < kMasks; ++i) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) marks[set][i] = 0;
#pragma unroll
      for (int part = i * 32; part < i * 32 + 32; part += Config::kUnit) {
        if (part == 0 || part < args.share) {
          Word x[kUnit];
          load<kPlain>(part / E::kPerWord, x);
#pragma unroll
          for (int set = 0; set < kSets; ++set) marks[set][i] |= f(x, set) >> (part % 32);
        }
      }
      // Places past this lane's columns are not elements, whatever the kth value is.
      const int left = own_cols() - i * 32;
#pragma unroll
      for (int set = 0; set < kSets; ++set) marks[set][i] &= left >= 32 ? ~0u : left <= 0 ? 0u : ~(~0u >> left);
    }
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
    Results::write(args, first_row, rows(), elements_at(lane()), warp_at(), first_col(), marks, before);
  }

  static __device__ __noinline__ void write_matrix(const TournamentArguments& args, int stage, std::int64_t first_row,
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
      const int col = owner % G * args.share + element;
      if (row < rows() && element < args.share && col < cols())
        f(row, col, elements_of(owner) + element, chosen << element % 32);
    }
  }
};

}  // namespace rtopk::cuda
