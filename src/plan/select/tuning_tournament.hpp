// The configs of cuda_tournament's kernel, for the plan and for the kernel.
#pragma once

#include <cstdint>
#include <type_traits>

namespace rtopk::cuda {

inline constexpr int kTournamentWarps = 4;  ///< Of a block.
inline constexpr std::int64_t kTournamentMaxK = 16;

/// Calls `f.template operator()<K>()` for the length of a lane's list: k, rounded up to a power of two.
template <class F>
constexpr auto with_tournament_list(std::int64_t k, F&& f) {
  if (k <= 1) return f.template operator()<1>();
  if (k <= 2) return f.template operator()<2>();
  if (k <= 4) return f.template operator()<4>();
  if (k <= 8) return f.template operator()<8>();
  return f.template operator()<16>();
}

/// The longest rows. The work grows with k and with the lanes of a row, which merge their lists: with lists of 16, a
/// search is faster for longer rows. To exchange elements of 8 bytes takes three times as many instructions.
template <class T, int K>
inline constexpr int kTournamentMaxCols = sizeof(T) == 8   ? (K <= 8 ? 128 : 0)
                                          : K <= 8         ? 1024
                                          : sizeof(T) == 2 ? 160
                                                           : 128;

/// True if aligned rows have kernels of their own. Elements of 8 bytes are as fast in the kernels for any address.
template <class T>
inline constexpr bool kTournamentReadsVectors = sizeof(T) != 8;

/// The results of a tile, which are written together: values, then columns.
template <class T, int G>
struct TournamentLists {
  static constexpr int kRows = 32 / G;  ///< Rows of a tile.
  static constexpr int values_bytes(int most_k) {
    return (kRows * most_k * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
  }
  /// The only result of a row is written without a list.
  static constexpr int lists_bytes(int most_k) {
    return most_k == 1 ? 0 : values_bytes(most_k) + (kRows * most_k * 4 + 15) / 16 * 16;
  }
};

/// G lanes share a row; each owns R neighbouring elements of it. A warp works on 32 / G rows at a time: a tile. Rows
/// begin and end at multiples of 16 bytes.
template <class T, int G, int R>
struct TournamentConfig : TournamentLists<T, G> {
  using TournamentLists<T, G>::kRows;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));  ///< Elements of one access.
  static constexpr int kVectors = R / kVector;                      ///< Accesses to a lane's elements.
  static constexpr int kCols = R * G;                               ///< The longest row.
  /// Columns of a lane: as few as the row needs, in units of 8 registers, so that fewer padding elements are compared.
  static constexpr int kUnit = sizeof(T) == 2 ? 16 : 8;
  static constexpr int share(int cols) { return (cols + G * kUnit - 1) / (G * kUnit) * kUnit; }
  /// Elements from one lane's first element to the next lane's. The gap of one access makes it an odd number of
  /// accesses, which avoids bank conflicts both for the copies, which go along rows, and for the lanes, which go along
  /// their own elements.
  static constexpr int pitch(int cols) { return share(cols) + kVector; }
  static constexpr int stage_bytes(int cols) { return 32 * pitch(cols) * static_cast<int>(sizeof(T)); }
  static constexpr int kStages = 2;  ///< One is searched while the other is being filled.

  // A warp's shared memory: the lists; the stages.

  static constexpr int warp_bytes(int most_k, int cols) {
    return TournamentConfig::lists_bytes(most_k) + kStages * stage_bytes(cols);
  }
  static constexpr int shared_bytes(int most_k, int cols) { return kTournamentWarps * warp_bytes(most_k, cols); }
  static constexpr int kBlocksPerMultiprocessor = 65536 / (32 * kTournamentWarps * 64);  ///< 64 registers.
};

/// Rows at any address. They lie in shared memory as they do in memory, copied as aligned vectors of 16 bytes. Lanes
/// read words of 4 bytes, or of 8 if elements are; of a row of 16-bit elements, half of the first word and half of the
/// last may be foreign.
template <class T, int G, int R>
struct UnalignedTournamentConfig : TournamentLists<T, G> {
  using TournamentLists<T, G>::kRows;
  static constexpr int kBytes = static_cast<int>(sizeof(T));
  static constexpr int kWordBytes = kBytes == 8 ? 8 : 4;
  using Bits = std::conditional_t<kBytes == 8, std::uint64_t, std::uint32_t>;  ///< Of a word.
  static constexpr int kPerWord = kWordBytes / kBytes;
  static constexpr int kWords = R / kPerWord;  ///< The most words of a lane.
  static constexpr int kUnit = 8;              ///< Words that are searched at a time.
  static constexpr int kUnitBytes = kWordBytes * kUnit;
  static constexpr int kStages = 2;

  /// Words of a row, wherever it begins.
  static constexpr int row_words(int cols) { return kPerWord == 2 ? cols / 2 + 1 : cols; }
  /// With many lanes, only if their stride is odd.
  static constexpr bool takes(std::int64_t cols) {
    constexpr int kMostWords = G <= 4 ? kWords : kWords - 1;
    return cols <= std::int64_t{R} * G && row_words(static_cast<int>(cols)) <= G * kMostWords;
  }
  /// Words from one lane's first to the next one's. If it is odd, lanes of a row have no bank conflicts.
  static constexpr int stride_words(int cols) {
    if (G == 1) return row_words(cols);
    const int stride = ((row_words(cols) + G - 1) / G) | 1;
    return stride < kWords ? stride : kWords;
  }

  static constexpr int kMaxGap = 16;  ///< Bytes between rows that may be copied with them.
  /// Copies of a lane for a tile that is one stretch, at most.
  static constexpr int kCopies = (kRows * (R * G * kBytes + kMaxGap) + 15 + 511) / 512;
  /// True if a tile is copied as one stretch. Else each row has a slot of its own: gaps between rows would be copied
  /// too, or rows would begin in the same few banks.
  static constexpr bool is_one_stretch(std::int64_t cols, std::int64_t stride) {
    constexpr int kMostConflicts = 4;  // what slots, which begin at multiples of 16 bytes, have too
    return stride - cols <= kMaxGap / kBytes &&
           (kRows <= kMostConflicts || stride % (std::int64_t{2} * kMostConflicts * kPerWord) != 0);
  }
  /// An odd number of vectors. A row may begin anywhere in the first.
  static constexpr int slot_vectors(std::int64_t cols) {
    return ((static_cast<int>(cols) * kBytes + (16 - kBytes) + 15) / 16) | 1;
  }
  /// A unit that begins in a row may be read past its end, and so past the last row's.
  static constexpr int stage_bytes(std::int64_t cols, std::int64_t stride) {
    const int rows = is_one_stretch(cols, stride) ? (kRows * static_cast<int>(stride) * kBytes + 15) / 16 * 16 + 16
                                                  : kRows * slot_vectors(cols) * 16;
    return rows + kUnitBytes;
  }

  // A warp's shared memory: a unit of padding, for lanes whose row has ended; the lists; the stages.

  static constexpr int kListsAt = kUnitBytes;
  static constexpr int stages_at(int most_k) { return kListsAt + UnalignedTournamentConfig::lists_bytes(most_k); }
  static constexpr int warp_bytes(int most_k, std::int64_t cols, std::int64_t stride) {
    return stages_at(most_k) + kStages * stage_bytes(cols, stride);
  }
  static constexpr int shared_bytes(int most_k, std::int64_t cols, std::int64_t stride) {
    return kTournamentWarps * warp_bytes(most_k, cols, stride);
  }
  static constexpr int kRegisters = kBytes == 8 ? 80 : 64;
  static constexpr int kBlocksPerMultiprocessor = 65536 / (32 * kTournamentWarps * kRegisters);
};

/// General rows, at any address. Each has a slot, which is an odd number of vectors, and a record of where it begins and
/// ends.
template <class T, int G, int R>
struct UnevenTournamentConfig : UnalignedTournamentConfig<T, G, R> {
  using Base = UnalignedTournamentConfig<T, G, R>;
  static constexpr int kRecordBytes = 16;
  /// What rows have of their own takes registers too.
  static constexpr int kRegisters = Base::kBytes == 8 ? 96 : 80;
  static constexpr int kBlocksPerMultiprocessor = 65536 / (32 * kTournamentWarps * kRegisters);

  /// A unit that begins in a row may be read past its end, and so past the last row's.
  static constexpr int records_at(std::int64_t cols) {
    return Base::kRows * Base::slot_vectors(cols) * 16 + Base::kUnitBytes;
  }
  static constexpr int stage_bytes(std::int64_t cols) { return records_at(cols) + Base::kRows * kRecordBytes; }

  // A warp's shared memory: a unit of padding, for lanes whose row has ended; the lists; the rows of a tile. There is one
  // stage: slots for the longest row take much memory, and more warps hide the latency of copies better than a second one
  // (a million segments of 32: 12 warps a multiprocessor with two stages, 24 with one).

  static constexpr int stage_at(int most_k) {
    return Base::kListsAt + Base::values_bytes(most_k) + (Base::kRows * most_k * 4 + 15) / 16 * 16;
  }
  static constexpr int warp_bytes(int most_k, std::int64_t cols) { return stage_at(most_k) + stage_bytes(cols); }
  static constexpr int shared_bytes(int most_k, std::int64_t cols) {
    return kTournamentWarps * warp_bytes(most_k, cols);
  }
};

/// Calls `f.template operator()<G, R>()` for configs with up to kMost elements for a lane, shortest rows first, until
/// it returns true.
template <class T, int K, int kMost, class F>
constexpr bool for_tournament_lanes(F&& f) {
  constexpr int kLongest = kTournamentMaxCols<T, K>;
  if constexpr (kLongest > 0) {
    if (f.template operator()<1, 32>()) return true;
    if constexpr (kMost > 32) {
      if (f.template operator()<1, kMost>()) return true;
    }
    if (f.template operator()<2, kMost>()) return true;
  }
  if constexpr (kLongest > 2 * kMost) {
    if (f.template operator()<4, kMost>()) return true;
  }
  if constexpr (kLongest > 4 * kMost) {
    if (f.template operator()<8, kMost>() || f.template operator()<16, kMost>()) return true;
  }
  if constexpr (kLongest > 16 * kMost) return f.template operator()<32, kMost>();
  return false;
}

/// The same for the compiled configs of aligned rows. A lane's elements fit in 32 registers; longer rows have more
/// lanes. But to merge lists of 16 takes longer than to fill them: there, lanes have more elements.
template <class T, int K, class F>
constexpr bool for_tournament_variants(F&& f) {
  if constexpr (!kTournamentReadsVectors<T>) {
    return false;
  } else if constexpr (sizeof(T) == 4 && K <= 8) {
    return for_tournament_lanes<T, K, 32>(f);
  } else {
    return for_tournament_lanes<T, K, 64>(f);
  }
}

/// The same for rows at any address. Lanes read word by word, in loops, so that more words need no more registers; but
/// they need shared memory, which limits the number of warps (64 columns of f32 at a stride of 69, k 8: 1.68 times the
/// floor with two lanes, 2.42 with one). The longest rows need more lanes: many lanes use an odd number of words, and a
/// row of 16-bit elements may have one word more.
template <class T, int K, class F>
constexpr bool for_unaligned_tournament_variants(F&& f) {
  if constexpr (sizeof(T) == 8) {
    return for_tournament_lanes<T, K, 32>(f);
  } else if constexpr (sizeof(T) == 4 && K <= 8) {
    return for_tournament_lanes<T, K, 48>(f);
  } else {
    if (for_tournament_lanes<T, K, 64>(f)) return true;
    if constexpr (K <= 8) return f.template operator()<32, 64>();
    return false;
  }
}

/// The same for general rows: those of up to four lanes. cuda_warp takes longer ones.
template <class T, int K, class F>
constexpr bool for_uneven_tournament_variants(F&& f) {
  return for_unaligned_tournament_variants<T, K>([&]<int G, int R>() {
    if constexpr (G <= 4) {
      return f.template operator()<G, R>();
    } else {
      return false;
    }
  });
}

}  // namespace rtopk::cuda
