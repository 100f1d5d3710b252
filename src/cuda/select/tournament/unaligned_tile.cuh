// The rows of a warp of cuda_tournament in shared memory, at any address. They lie there as they do in memory, copied
// as aligned vectors of 16 bytes: all rows of the tile as one stretch, or each in a slot if there are gaps between
// them.
//
// Lanes read words of 4 bytes, or of 8 if elements are. Whole units of 8 words are searched as they are. In the rest,
// what is not the lane's own becomes a value that no element comes after. So does the first half of a word in the
// middle of which a row of 16-bit elements begins. That half keeps its place among the marks, where it is cleared: so
// nothing needs to be shifted.
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

/// With what depends on the number of columns and the stride alone: in a kernel, constants.
struct UnalignedTournamentArguments : SelectArguments {
  int lane_words;    ///< From one lane's first word to the next one's.
  int slot_vectors;  ///< Of a row, or 0 if the rows of a tile are one stretch.
  int row_bytes;   ///< From a row to the next one, in shared memory, but for the places of rows in their first vectors.
  int lead_bytes;  ///< From a row's place in its first vector to the next one's, modulo 16.
  int tile_bytes;  ///< Of a tile that is one stretch.
  int stage_bytes;
  int warp_bytes;

  template <class Config>
  static UnalignedTournamentArguments of(const SelectArguments& args, int most_k) {
    const bool one_stretch = Config::is_one_stretch(args.cols, args.stride);
    const auto cols = static_cast<int>(args.cols);
    const auto stride = static_cast<int>(args.stride % (1 << 16));  // of one stretch, all of it
    UnalignedTournamentArguments result{args};
    result.lane_words = Config::stride_words(cols);
    result.slot_vectors = one_stretch ? 0 : Config::slot_vectors(cols);
    result.row_bytes = one_stretch ? stride * Config::kBytes : 16 * result.slot_vectors;
    result.lead_bytes = one_stretch ? 0 : stride * Config::kBytes % 16;
    result.tile_bytes = ((Config::kRows - 1) * stride + cols) * Config::kBytes;
    result.stage_bytes = Config::stage_bytes(args.cols, args.stride);
    result.warp_bytes = Config::warp_bytes(most_k, args.cols, args.stride);
    return result;
  }
};

/// Copies rows to shared memory.
template <class T>
struct TournamentCopies {
  static constexpr int kBytes = static_cast<int>(sizeof(T));
  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }

  /// Vectors are copied whole, because what lies around a row is mostly other rows. Those that reach outside of the
  /// matrix, which is all of [first, last), are copied element by element. `slot_vectors`: of a row, or 0 if the rows
  /// are one stretch.
  static __device__ __noinline__ void fetch(int to, const char* from, std::int64_t pitch, int rows, int cols,
                                            int slot_vectors, const char* first, const char* last) {
    const bool one_stretch = slot_vectors == 0;
    const int stretches = one_stretch ? 1 : rows;
    const int length = one_stretch ? (rows - 1) * static_cast<int>(pitch) + cols * kBytes : cols * kBytes;
    const int vectors = one_stretch ? (length + 15) / 16 + 1 : slot_vectors;
    // A fixed-point reciprocal: exact if the vectors of a tile times those of a row are less than 2^20.
    const int over_vectors = one_stretch ? 0 : (1 << 20) / vectors + 1;
#pragma unroll 1
    for (int i = lane(); i < stretches * vectors; i += 32) {
      const int row = i * over_vectors >> 20;
      const char* begin = from + row * pitch;
      const auto lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(begin) % 16);
      const int vector = (i - row * vectors) * 16;
      if (vector >= lead + length) continue;
      const char* source = begin - lead + vector;
      char* target = tournament_memory() + to + i * 16;
      if (source >= first && source + 16 <= last) {
        copy_async_once<false>(static_cast<std::uint32_t>(__cvta_generic_to_shared(target)), source);
      } else {
#pragma unroll 1
        for (int j = 0; j < 16; j += kBytes) {
          if (source + j >= first && source + j < last) {
            *reinterpret_cast<T*>(target + j) = *reinterpret_cast<const T*>(source + j);
          }
        }
      }
    }
  }
};

/// Writes dense rows and masks.
template <class T, int kMasks, int K>
struct TournamentMatrix {
  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }

  /// The rows of a tile are one stretch in a dense matrix or a mask. It is prepared in shared memory, in the place of
  /// the elements. `place`: the lane's first element in that stretch.
  static __device__ __noinline__ void write(int elements_at, int stage_at, int place, unsigned first_marks,
                                            unsigned last_marks, char* out, int count, bool dense) {
    unsigned marks[kMasks];
    marks[kMasks - 1] = last_marks;
    marks[0] = first_marks;
    const T* mine = reinterpret_cast<const T*>(tournament_memory() + elements_at);
    int chosen[K];
    T values[K];
#pragma unroll
    for (int i = 0; i < K; ++i) {
      chosen[i] = -1;
      values[i] = T{};
      if (TournamentMarks<kMasks>::any(marks)) {
        const int number = TournamentMarks<kMasks>::take_first(marks);
        chosen[i] = place + number;
        if (dense) values[i] = mine[number];
      }
    }
    __syncwarp();  // before places change
    if (dense) {
      write_stretch<T>(stage_at, chosen, values, reinterpret_cast<T*>(out), count);
    } else {
      std::uint8_t ones[K];
#pragma unroll
      for (int i = 0; i < K; ++i) ones[i] = 1;
      write_stretch<std::uint8_t>(stage_at, chosen, ones, reinterpret_cast<std::uint8_t*>(out), count);
    }
  }

  /// Writes zeros, and this lane's values in the places that are chosen.
  template <class X>
  static __device__ void write_stretch(int stage_at, const int (&chosen)[K], const X (&values)[K], X* out, int count) {
    constexpr int kVector = 16 / static_cast<int>(sizeof(X));
    const auto lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(out) % 16 / sizeof(X));
    const int end = lead + count;
    X* stretch = reinterpret_cast<X*>(tournament_memory() + stage_at);
#pragma unroll 4
    for (int i = lane() * kVector; i < end; i += 32 * kVector) {
      *reinterpret_cast<uint4*>(stretch + i) = make_uint4(0, 0, 0, 0);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < K; ++i) {
      if (chosen[i] >= 0) stretch[lead + chosen[i]] = values[i];
    }
    __syncwarp();
    X* to = out - lead;
#pragma unroll 2
    for (int i = lane() * kVector; i < end; i += 32 * kVector) {
      if (i >= lead && i + kVector <= end) {
        *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(stretch + i);
      } else {
#pragma unroll 1
        for (int j = max(i, lead); j < min(i + kVector, end); ++j) to[j] = stretch[j];
      }
    }
  }
};

template <class T, int G, int R, int K>
struct UnalignedTournamentTile {
  using Type = T;
  using Arguments = UnalignedTournamentArguments;
  using Config = UnalignedTournamentConfig<T, G, R>;
  using Results = TournamentResults<T, G, R, K>;
  using E = TournamentElement<T>;
  using Word = typename E::Word;
  static constexpr int kLanes = G;
  static constexpr int kList = K;
  static constexpr int kMasks = (R + 31) / 32;
  static constexpr int kBytes = Config::kBytes;
  static constexpr int kPerWord = Config::kPerWord;
  static constexpr int kUnit = Config::kUnit;
  static constexpr int kUnitElements = kUnit * kPerWord;
  static constexpr int kWordBytes = Config::kWordBytes;
  using Bits = typename Config::Bits;

  const UnalignedTournamentArguments& args;
  int stage;
  std::int64_t first_row;
  int at;          ///< The lane's first word in shared memory.
  int first_col;   ///< The column of its first element; -1: the first half of its first word lies before the row.
  int elements;    ///< From there up to the end of the lane's own.
  int full_units;  ///< Of the lane.
  int rest_words;  ///< The most words past the full units that any lane has.

  __device__ UnalignedTournamentTile(const UnalignedTournamentArguments& arguments, int number, std::int64_t row)
      : args(arguments), stage(number), first_row(row) {
    // Lanes without a row look at the last one again.
    const int own_row = min(lane() / G, rows() - 1);
    const int row_at = stage_at(args, stage) + place_of(own_row);
    const int begin = lane() % G * args.lane_words;
    at = (row_at & ~(kWordBytes - 1)) + begin * kWordBytes;
    first_col = begin * kPerWord - (row_at & (kWordBytes - 1)) / kBytes;
    elements = cols() - first_col;
    if constexpr (G == 1) {
      const auto units = static_cast<unsigned>(cols()) / kUnitElements;
      full_units = static_cast<int>(units);
      rest_words = Config::row_words(cols() - full_units * kUnitElements);
    } else {
      elements = max(0, min(elements, args.lane_words * kPerWord));
      if (elements == 0) at = warp_at(args);
      full_units = elements / kUnitElements;
      rest_words = __reduce_max_sync(kFullWarp, (elements % kUnitElements + kPerWord - 1) / kPerWord);
    }
  }

  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ int k() const { return static_cast<int>(args.k); }
  __device__ int cols() const { return static_cast<int>(args.cols); }
  __device__ int rows() const { return rows_from(args, first_row); }
  static __device__ int rows_from(const UnalignedTournamentArguments& args, std::int64_t row) {
    const std::int64_t left = args.rows - row;
    return left < Config::kRows ? static_cast<int>(left) : Config::kRows;
  }

  // Places in shared memory, in bytes from its beginning.

  /// The warp's part begins with the padding.
  static __device__ int warp_at(const UnalignedTournamentArguments& args) {
    return static_cast<int>(threadIdx.x / 32) * args.warp_bytes;
  }
  static __device__ int stage_at(const UnalignedTournamentArguments& args, int stage) {
    return warp_at(args) + Config::stages_at(K) + stage * args.stage_bytes;
  }
  /// The place of a row in its stage.
  __device__ int place_of(int row) const {
    const std::uint32_t first = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(args.input)) +
                                static_cast<std::uint32_t>(first_row) * static_cast<std::uint32_t>(args.stride) *
                                    static_cast<std::uint32_t>(kBytes);
    return row * args.row_bytes + static_cast<int>((first + static_cast<std::uint32_t>(row * args.lead_bytes)) % 16);
  }

  // ------------------------------------------------------------------------------------------------------------------
  // From global memory.

  static __device__ void fetch(const UnalignedTournamentArguments& args, int stage, std::int64_t row) {
    constexpr int kRows = Config::kRows;
    const char* from = static_cast<const char*>(args.input) + row * args.stride * kBytes;
    // With a whole tile before it and another behind it, no vector of this one reaches outside of the matrix.
    if (args.slot_vectors == 0 && row > 0 && row + 2 * kRows <= args.rows) {
      const auto lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) % 16);
      const int end = lead + args.tile_bytes - lane() * 16;
      // Once for all copies, not again for each.
      const auto to = opaque(static_cast<std::uint32_t>(
          __cvta_generic_to_shared(tournament_memory() + stage_at(args, stage) + lane() * 16)));
      const char* mine = opaque(from + (lane() * 16 - lead));
#pragma unroll
      for (int i = 0; i < Config::kCopies; ++i) {
        if (i * 512 < end) copy_async_once<false>(to + static_cast<std::uint32_t>(i * 512), mine + i * 512);
      }
    } else {
      const auto* first = static_cast<const char*>(args.input);
      TournamentCopies<T>::fetch(stage_at(args, stage), from, args.stride * kBytes, rows_from(args, row),
                                 static_cast<int>(args.cols), args.slot_vectors, first,
                                 first + ((args.rows - 1) * args.stride + args.cols) * kBytes);
    }
  }

  /// Two copies, or one, of a value that no element comes after.
  static __device__ Bits padding(bool smallest) {
    using One = core::KeyOf<T>;
    if constexpr (kBytes == 8) {
      return smallest ? ~Bits{0} : core::ElementTraits<T>::infinity_bits | Bits{1} << 63;  // NaN or -infinity
    } else if constexpr (core::is_floating<T>) {
      constexpr One infinity = core::ElementTraits<T>::infinity_bits;
      constexpr std::uint32_t repeated = kPerWord == 2 ? infinity * 0x00010001u : infinity;
      return smallest ? repeated : repeated | (kPerWord == 2 ? 0x80008000u : 0x80000000u);
    } else {
      return smallest ? 0x7fffffffu : 0x80000000u;
    }
  }

  /// Writes the unit that lanes read whose row has ended.
  static __device__ void pad(const UnalignedTournamentArguments& args) {
    if (G > 1 && lane() < kUnit) {
      reinterpret_cast<Bits*>(tournament_memory() + warp_at(args))[lane()] = padding(args.smallest);
    }
  }

  // ------------------------------------------------------------------------------------------------------------------
  // This lane's elements.

  static __device__ Bits word_at(int place) { return *reinterpret_cast<const Bits*>(tournament_memory() + place); }
  template <bool kPlain>
  __device__ Word word_of(Bits bits) const {
    const Word word = E::from_bits(bits);
    return kPlain ? word : E::directed(word, args.smallest);
  }

  /// The most full units of any lane.
  __device__ int units() const { return G == 1 ? full_units : args.lane_words / kUnit; }
  __device__ int unit_at(int unit) const {
    return G == 1 || unit < full_units ? at + unit * Config::kUnitBytes : warp_at(args);
  }
  __device__ int rest_at() const { return at + full_units * Config::kUnitBytes; }

  /// The first word, without a half that lies before the row.
  __device__ Bits from_first_on(Bits bits) const {
    if constexpr (kPerWord == 1) {
      return bits;
    } else {
      return first_col < 0 ? __byte_perm(bits, padding(args.smallest), 0x3254) : bits;
    }
  }
  /// Word `number`, without what lies past the first `count` elements from word 0 on.
  __device__ Bits up_to(int count, int number, Bits bits) const {
    if constexpr (kPerWord == 1) {
      return number < count ? bits : padding(args.smallest);
    } else {
      // A byte for each of four elements, whose sign is set if the element is past the end.
      const std::uint32_t signs = 0x83828180u + 0x04040404u * static_cast<unsigned>(number / 2) -
                                  static_cast<std::uint32_t>(count) * 0x01010101u;
      std::uint32_t past;
      if (number % 2 == 0) {
        asm("prmt.b32 %0, %1, %1, 0x9988;" : "=r"(past) : "r"(signs));
      } else {
        asm("prmt.b32 %0, %1, %1, 0xbbaa;" : "=r"(past) : "r"(signs));
      }
      return (bits & ~past) | (padding(args.smallest) & past);
    }
  }

  /// Calls `f` for one list of words after the other, in any order, with the number of calls before; at least that.
  template <bool kPlain, class F>
  __device__ void for_each_list(F f) const {
    constexpr int kLength = K < kUnit ? K : kUnit;
    if constexpr (K < kUnit) {
#pragma unroll
      for (int part = 0; part < kUnit; part += K) {
        if (part < kUnit / 2 || kUnit / 2 < rest_words) add_rest<kPlain, K>(part, f);
      }
    } else if (rest_words > kUnit / 2) {
      add_rest<kPlain, kUnit>(0, f);
    } else {
      add_rest<kPlain, kUnit / 2>(0, f);  // the rest is often short, and the first list need not be long
    }
#pragma unroll 1
    for (int unit = 0; unit < units(); ++unit) {
      const int from = unit_at(unit);
      Bits bits[kUnit];
#pragma unroll
      for (int i = 0; i < kUnit; ++i) bits[i] = word_at(from + i * kWordBytes);
      if (unit == 0) bits[0] = from_first_on(bits[0]);
#pragma unroll
      for (int part = 0; part < kUnit; part += kLength) {
        Word list[kLength];
#pragma unroll
        for (int i = 0; i < kLength; ++i) list[i] = word_of<kPlain>(bits[part + i]);
        f(list, (kUnit + unit * kUnit + part) / kLength);
      }
    }
  }
  /// N words of the rest, from number `first` on.
  template <bool kPlain, int N, class F>
  __device__ void add_rest(int first, F f) const {
    const int rest = elements - full_units * kUnitElements;
    Word list[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      Bits bits = word_at(rest_at() + (first + i) * kWordBytes);
      if (first + i == 0 && full_units == 0) bits = from_first_on(bits);
      list[i] = word_of<kPlain>(up_to(rest, first + i, bits));
    }
    f(list, first / N);
  }

  /// Marks elements by `f`, which gives a bit for each of some words, the first in the highest bit.
  template <bool kPlain, class F>
  __device__ void mark(unsigned (&marks)[kMasks], F f) const {
#pragma unroll
    for (int i = 0; i < kMasks; ++i) marks[i] = 0;
#pragma unroll 1
    for (int unit = 0; unit < units(); ++unit) {
      const unsigned found = found_by<kPlain, kUnit>(unit_at(unit), f);
      if (G == 1 || unit < full_units) put(found, unit, marks);
    }
    // Half a unit at a time: the rest is often short.
    unsigned rest = found_by<kPlain, kUnit / 2>(rest_at(), f);
    if (rest_words > kUnit / 2) {
      rest |= found_by<kPlain, kUnit / 2>(rest_at() + Config::kUnitBytes / 2, f) >> (kUnitElements / 2);
    }
    put(rest, full_units, marks);
#pragma unroll
    for (int i = 0; i < kMasks; ++i) {
      const int left = elements - i * 32;
      marks[i] &= left >= 32 ? ~0u : left <= 0 ? 0u : ~(~0u >> left);
    }
    if (kPerWord == 2 && first_col < 0) marks[0] &= 0x7fffffffu;
  }
  /// Adds a unit's marks to those of the lane.
  static __device__ void put(unsigned found, int unit, unsigned (&marks)[kMasks]) {
#pragma unroll
    for (int i = 0; i < kMasks; ++i) {
      // A shift by more than 32 gives 0, and so does one by less than nothing.
      marks[i] |= __funnelshift_rc(found, 0, static_cast<unsigned>(unit * kUnitElements - i * 32));
    }
  }
  template <bool kPlain, int N, class F>
  __device__ unsigned found_by(int place, F f) const {
    Word x[N];
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = word_of<kPlain>(word_at(place + i * kWordBytes));
    return f(x);
  }

  // ------------------------------------------------------------------------------------------------------------------
  // To global memory.

  /// Writes the elements marked in their lanes, the first element's mark in the highest bit. `before`: marked elements
  /// of the row in lower lanes.
  __device__ void write(const unsigned (&marks)[kMasks], int before) const {
    if (args.passes != nullptr && lane() < rows()) args.passes[first_row + lane()] = 1;
    if (args.form == Form::dense || args.form == Form::mask) {
      const bool dense = args.form == Form::dense;
      char* out = dense ? static_cast<char*>(args.dense) : reinterpret_cast<char*>(args.mask);
      const bool exists = lane() / G < rows();
      return TournamentMatrix<T, kMasks, K>::write(
          at, stage_at(args, stage), lane() / G * cols() + first_col, exists ? marks[0] : 0u,
          exists ? marks[kMasks - 1] : 0u, out + first_row * args.cols * (dense ? kBytes : 1), rows() * cols(), dense);
    }
    Results::write(args, first_row, rows(), at, warp_at(args) + Config::kListsAt, first_col, marks, before);
  }
};

}  // namespace rtopk::cuda
