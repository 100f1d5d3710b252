// The elements of a lane of cuda_tournament, in shared memory at any address.
//
// Lanes read words of 4 bytes, or of 8 if elements are. Whole units of 8 words are searched as they are. In the rest,
// what is not the lane's own becomes a value that no element comes after. So does the first half of a word in the
// middle of which a row of 16-bit elements begins. That half keeps its place among the marks, where it is cleared: so
// nothing needs to be shifted.
#pragma once

#include <cstdint>

#include "core/keys.hpp"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/tournament/element.cuh"
#include "cuda/select/tournament/results.cuh"
#include "plan/select/tuning_tournament.hpp"

namespace rtopk::cuda {

/// `Arguments::kUneven`: rows have lengths of their own, and may compare by magnitude.
template <class TileArguments, class T, int G, int R, int K>
struct TournamentWords {
  using Type = T;
  using Arguments = TileArguments;
  using E = TournamentElement<T>;
  using Word = typename E::Word;
  static constexpr int kLanes = G;
  static constexpr int kList = K;
  static constexpr int kMasks = (R + 31) / 32;
  using Config = UnalignedTournamentConfig<T, G, R>;
  static constexpr int kBytes = Config::kBytes;
  static constexpr int kPerWord = Config::kPerWord;
  static constexpr int kUnit = Config::kUnit;
  static constexpr int kUnitElements = kUnit * kPerWord;
  static constexpr int kWordBytes = Config::kWordBytes;
  using Bits = typename Config::Bits;
  static constexpr bool kUneven = Arguments::kUneven;
  static constexpr bool kStopsEarly = !kUneven;
  static constexpr bool kAlike = G == 1 && !kUneven;  ///< All lanes have as many words.

  const Arguments& args;
  int at;          ///< The lane's first word in shared memory.
  int first_col;   ///< The column of its first element; -1: the first half of its first word lies before the row.
  int elements;    ///< From there up to the end of the lane's own.
  int full_units;  ///< Of the lane.
  int most_units;  ///< Of any lane, if rows are uneven.
  int rest_words;  ///< The most words past the full units that any lane has.

  __device__ explicit TournamentWords(const Arguments& arguments) : args(arguments) {}

  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }

  /// The warp's part of shared memory begins with the padding.
  static __device__ int warp_at(const Arguments& args) { return static_cast<int>(threadIdx.x / 32) * args.warp_bytes; }

  /// Sets the row of this lane: its place in shared memory, and its length.
  __device__ void set_row(int row_at, int cols) {
    const int begin = lane() % G * args.lane_words;
    at = (row_at & ~(kWordBytes - 1)) + begin * kWordBytes;
    first_col = begin * kPerWord - (row_at & (kWordBytes - 1)) / kBytes;
    elements = cols - first_col;
    if constexpr (kAlike) {
      const auto units = static_cast<unsigned>(cols) / kUnitElements;
      full_units = static_cast<int>(units);
      rest_words = Config::row_words(cols - full_units * kUnitElements);
    } else {
      elements = max(0, min(elements, args.lane_words * kPerWord));
      if (elements == 0) at = warp_at(args);
      full_units = elements / kUnitElements;
      rest_words = __reduce_max_sync(kFullWarp, (elements % kUnitElements + kPerWord - 1) / kPerWord);
      if constexpr (kUneven) most_units = __reduce_max_sync(kFullWarp, full_units);
    }
  }

  /// Writes the unit that lanes read whose row has ended.
  static __device__ void pad(const Arguments& args) {
    if (!kAlike && lane() < kUnit) {
      reinterpret_cast<Bits*>(tournament_memory() + warp_at(args))[lane()] = padding(args);
    }
  }

  /// Two copies, or one, of a value that no element comes after.
  static __device__ Bits padding(const Arguments& args) {
    if constexpr (kUneven) {
      // No magnitude is less than that of 0. Integers compare as minus their magnitude.
      if (args.magnitude && args.smallest != core::is_floating<T>) return 0;
    }
    return padding(args.smallest);
  }

  static __device__ Bits word_at(int place) { return *reinterpret_cast<const Bits*>(tournament_memory() + place); }
  template <bool kPlain>
  __device__ Word word_of(Bits bits) const {
    if constexpr (kUneven && !kPlain) {
      if (args.magnitude) bits = E::without_sign(bits);
    }
    const Word word = E::from_bits(bits);
    return kPlain ? word : E::directed(word, args.smallest);
  }

  /// The most full units of any lane.
  __device__ int units() const {
    if constexpr (kUneven) return most_units;
    return G == 1 ? full_units : args.lane_words / kUnit;
  }
  __device__ int unit_at(int unit) const {
    return kAlike || unit < full_units ? at + unit * Config::kUnitBytes : warp_at(args);
  }
  __device__ int rest_at() const { return at + full_units * Config::kUnitBytes; }

  /// The first word, with padding instead of a half that lies before the row.
  __device__ Bits from_first_on(Bits bits, Bits padding) const {
    if constexpr (kPerWord == 1) {
      return bits;
    } else {
      return first_col < 0 ? __byte_perm(bits, padding, 0x3254) : bits;
    }
  }
  /// Word `number`, with padding instead of what lies past the first `count` elements from word 0 on.
  static __device__ Bits up_to(int count, int number, Bits bits, Bits padding) {
    if constexpr (kPerWord == 1) {
      return number < count ? bits : padding;
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
      return (bits & ~past) | (padding & past);
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
      if (unit == 0) bits[0] = from_first_on(bits[0], padding(args));
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
      if (first + i == 0 && full_units == 0) bits = from_first_on(bits, padding(args));
      list[i] = word_of<kPlain>(up_to(rest, first + i, bits, padding(args)));
    }
    f(list, first / N);
  }

  /// The least of this lane's elements, or of each half of its words.
  template <bool kPlain>
  __device__ Word least() const {
    const Bits comes_first = padding(!args.smallest);
    Word found = E::greatest();
#pragma unroll 1
    for (int unit = 0; unit < full_units; ++unit) {
#pragma unroll
      for (int i = 0; i < kUnit; ++i) {
        const Bits bits = word_at(unit_at(unit) + i * kWordBytes);
        found = E::lesser(found, word_of<kPlain>(unit + i == 0 ? from_first_on(bits, comes_first) : bits));
      }
    }
    const int rest = elements - full_units * kUnitElements;
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      if (i < rest_words) {
        Bits bits = word_at(rest_at() + i * kWordBytes);
        if (i == 0 && full_units == 0) bits = from_first_on(bits, comes_first);
        found = E::lesser(found, word_of<kPlain>(up_to(rest, i, bits, comes_first)));
      }
    }
    return found;
  }

  /// Marks elements by `f`, which gives a bit for each of some words, the first in the highest bit: for each set of marks
  /// by its number.
  template <bool kPlain, int kSets, class F>
  __device__ void mark(unsigned (&marks)[kSets][kMasks], F f) const {
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int i = 0; i < kMasks; ++i) marks[set][i] = 0;
    }
    unsigned found[kSets];
#pragma unroll 1
    for (int unit = 0; unit < units(); ++unit) {
      find<kPlain, kUnit>(unit_at(unit), f, found);
      if (kAlike || unit < full_units) put(found, unit, marks);
    }
    // Half a unit at a time: the rest is often short.
    find<kPlain, kUnit / 2>(rest_at(), f, found);
    if (rest_words > kUnit / 2) {
      unsigned second[kSets];
      find<kPlain, kUnit / 2>(rest_at() + Config::kUnitBytes / 2, f, second);
#pragma unroll
      for (int set = 0; set < kSets; ++set) found[set] |= second[set] >> (kUnitElements / 2);
    }
    put(found, full_units, marks);
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int i = 0; i < kMasks; ++i) {
        const int left = elements - i * 32;
        marks[set][i] &= left >= 32 ? ~0u : left <= 0 ? 0u : ~(~0u >> left);
      }
      if (kPerWord == 2 && first_col < 0) marks[set][0] &= 0x7fffffffu;
    }
  }
  /// Adds a unit's marks to those of the lane.
  template <int kSets>
  static __device__ void put(const unsigned (&found)[kSets], int unit, unsigned (&marks)[kSets][kMasks]) {
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int i = 0; i < kMasks; ++i) {
        // A shift by more than 32 gives 0, and so does one by less than nothing.
        marks[set][i] |= __funnelshift_rc(found[set], 0, static_cast<unsigned>(unit * kUnitElements - i * 32));
      }
    }
  }
  template <bool kPlain, int N, int kSets, class F>
  __device__ void find(int place, F f, unsigned (&found)[kSets]) const {
    Word x[N];
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = word_of<kPlain>(word_at(place + i * kWordBytes));
#pragma unroll
    for (int set = 0; set < kSets; ++set) found[set] = f(x, set);
  }

 private:
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
};

}  // namespace rtopk::cuda
