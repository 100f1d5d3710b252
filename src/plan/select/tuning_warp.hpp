// The configs of cuda_warp's kernel, for the plan and for the kernel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rtopk::cuda {

inline constexpr int kWarpsPerBlock = 4;
inline constexpr int kMaxTilesPerWarp = 32;  ///< In a batch. More would leave the device idle at the end.

/// G lanes share a row; each holds R elements of it. A warp works on 32 / G rows at a time: a tile.
template <class T, int G, int R>
struct WarpLists {
  static constexpr int kRows = 32 / G;  ///< Rows of a tile.
  static constexpr int kStages = 2;     ///< One tile is searched while the next one is being copied.
  static constexpr int kSortedPerLane = std::max(2, std::min(16, 128 / G));
  static constexpr int kSorted = G * kSortedPerLane;  ///< The largest k that this kernel sorts by value.
  /// A search ends by ranking the last elements, up to this many. With few elements in a lane another pass costs less.
  static constexpr int kRanked = G == 2 || R * static_cast<int>(sizeof(T)) <= 64 ? 8 : 16;

  /// Columns that the list of a row's results has room for.
  static constexpr int list_cols(std::int64_t k, bool by_value) {
    // Before the list is filled, its memory holds the values that are ranked. 16-bit elements are searched as f32.
    constexpr int kForRanks = kRanked * std::max(4, static_cast<int>(sizeof(T))) / 2;
    return std::max({static_cast<int>((k + 7) / 8 * 8), kForRanks, by_value ? kSorted : 0});
  }
  /// The lists of a tile.
  static constexpr int lists_bytes(std::int64_t k, bool by_value) {
    return (kRows * list_cols(k, by_value) * 2 + 127) / 128 * 128;
  }

  /// As many blocks as the registers of a multiprocessor allow without spilling. The more warps, the better loads,
  /// searches and stores overlap.
  static constexpr int kRegisters = R * static_cast<int>(sizeof(T)) / 4;  ///< Registers that hold the elements.
  static constexpr int kBlocksPerMultiprocessor = kRegisters > 44         ? 3
                                                  : kRegisters > 32       ? 4
                                                  : sizeof(T) == 8        ? 4
                                                  : std::is_integral_v<T> ? 5
                                                  : kRegisters <= 16      ? 8
                                                  : kRegisters <= 24      ? 7
                                                                          : 6;
};

/// Rows that begin and end at multiples of 16 bytes. A lane holds R neighbouring elements.
template <class T, int G, int R>
struct AlignedConfig : WarpLists<T, G, R> {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));  ///< Elements of a vector: one load.
  static constexpr int kVectors = R / kVector;                      ///< Vectors of a lane.
  static constexpr int kCols = R * G;                               ///< The longest row.
  static constexpr int kTileElements = 32 * R;
  static constexpr int kTileBytes = kTileElements * static_cast<int>(sizeof(T));

  /// Swizzle of a tile's vectors in shared memory. Lanes read vectors that lie kVectors apart, and copies write
  /// neighbouring ones. To avoid bank conflicts in both, the lowest bits of a vector's index are XORed with those of
  /// the lane that reads it.
  static constexpr bool kSwizzled = (kVectors & (kVectors - 1)) == 0;
  static constexpr int kSwizzleSpan = std::max(kVectors, 8);
  static constexpr int kSwizzleMask = kSwizzled ? std::min(kVectors, 8) - 1 : 0;
  static constexpr int place_of_vector(int vector) { return vector ^ ((vector / kSwizzleSpan) & kSwizzleMask); }

  static constexpr std::size_t shared_bytes(std::int64_t, std::int64_t k, bool by_value) {
    return std::size_t{kWarpsPerBlock} *
           static_cast<std::size_t>(AlignedConfig::kStages * kTileBytes + AlignedConfig::lists_bytes(k, by_value));
  }
  static constexpr bool takes(std::int64_t cols) { return cols <= kCols; }
  /// True if the paper's search is compiled for it too. To build it for all configs would take long.
  static constexpr bool kBisects = kVectors % 2 == 0;
};

/// Rows at any address. A lane reads kWords words from shared memory, of which up to `stride_words` are its own.
template <class T, int G, int R>
struct UnalignedConfig : WarpLists<T, G, R> {
  static constexpr int kPerWord = sizeof(T) == 2 ? 2 : 1;  ///< Elements of a word.
  static constexpr int kWords = R / kPerWord;              ///< Of a lane.
  static constexpr int kCols = R * G;                      ///< More than the longest row.
  /// Marks of a lane's own elements take registers too.
  static constexpr int kBlocksPerMultiprocessor =
      WarpLists<T, G, R>::kBlocksPerMultiprocessor - (sizeof(T) == 4 && R <= 32 ? 1 : 0);
  /// Copies of a lane for a row: its vectors, and one more for what it does not fill.
  static constexpr int kCopies = (kCols * static_cast<int>(sizeof(T)) / 16 + 2 + G - 1) / G;

  /// Words from one lane's first to the next one's. Multiples of four would cause bank conflicts.
  static constexpr int stride_words(int cols) {
    const int words = kPerWord == 2 ? cols / 2 + 1 : cols;  // a 16-bit row may begin in the middle of a word
    const int stride = (words + G - 1) / G;
    return stride % 4 == 0 ? stride + 1 : stride;
  }
  static constexpr bool takes(std::int64_t cols) {
    return cols <= kCols && stride_words(static_cast<int>(cols)) <= kWords &&
           (cols + kPerWord - 1) / kPerWord >= kWords;
  }
  /// A row's place in shared memory: it may begin, or be written from, anywhere in the first vector.
  static constexpr int slot_bytes(std::int64_t cols) {
    return static_cast<int>((cols * static_cast<std::int64_t>(sizeof(T)) + 30) / 16 * 16);
  }
  static constexpr std::size_t shared_bytes(std::int64_t cols, std::int64_t k, bool by_value) {
    const int tile = UnalignedConfig::kRows * slot_bytes(cols);
    return std::size_t{kWarpsPerBlock} *
           static_cast<std::size_t>(UnalignedConfig::kStages * tile + UnalignedConfig::lists_bytes(k, by_value));
  }
};

inline constexpr int kRaggedRecordBytes = 16;  ///< The shape of a row, in shared memory.

/// Short general rows: up to kCols elements at any address. A lane holds R neighbouring elements. The number of words
/// that they take is no multiple of four, which would cause bank conflicts.
template <class T, int G, int R>
struct RaggedConfig : WarpLists<T, G, R> {
  static constexpr int kCols = R * G;
  /// What a row's own shape takes, too.
  static constexpr int kBlocksPerMultiprocessor =
      std::max(WarpLists<T, G, R>::kBlocksPerMultiprocessor - (sizeof(T) == 8 ? 0 : 1), 3);
  static constexpr int kRowBytes = kCols * static_cast<int>(sizeof(T));
  /// A row may begin anywhere in the first vector. 16-bit rows are read up to a word past their end. The row's shape comes
  /// last.
  static constexpr int kSlotBytes = (kRowBytes + 15 + 15 + 4) / 16 * 16 + kRaggedRecordBytes;
  /// Copies of a lane for a row: its vectors, and one more for what it does not fill.
  static constexpr int kCopies = (kRowBytes / 16 + 2 + G - 1) / G;

  static constexpr std::size_t shared_bytes(std::int64_t, std::int64_t k, bool by_value) {
    return std::size_t{kWarpsPerBlock} *
           static_cast<std::size_t>(RaggedConfig::kStages * RaggedConfig::kRows * kSlotBytes +
                                    RaggedConfig::lists_bytes(k, by_value));
  }
  static constexpr bool takes(std::int64_t cols) { return cols <= kCols; }
};

/// Calls `f.template operator()<G, R>()` for the compiled configs of aligned rows, shortest rows first, until it
/// returns true.
///
/// Every element of a lane costs time, whether the row has so many or not: no row is padded by more than two fifths.
/// Where lanes are an odd number of vectors apart, they have no bank conflicts without a swizzle.
template <class T, class F>
constexpr bool for_aligned_variants(F&& f) {
  // Measured at 128 columns: 8 lanes of 16 elements take 1.31 times the floor, 4 of 32 take 1.65. 16-bit elements take
  // half a register each: with 64 in a lane, twice as many elements share the fixed cost of a row (768 columns, k 16:
  // 1.47 against 1.88).
  if constexpr (sizeof(T) == 2) {
    return f.template operator()<2, 16>() || f.template operator()<2, 32>() || f.template operator()<4, 32>() ||
           f.template operator()<4, 40>() || f.template operator()<4, 56>() || f.template operator()<4, 64>() ||
           f.template operator()<8, 24>() || f.template operator()<8, 32>() || f.template operator()<8, 40>() ||
           f.template operator()<8, 56>() || f.template operator()<8, 64>() || f.template operator()<16, 40>() ||
           f.template operator()<16, 48>() || f.template operator()<16, 56>() || f.template operator()<16, 64>() ||
           f.template operator()<32, 40>() || f.template operator()<32, 56>() || f.template operator()<32, 64>();
  } else if constexpr (std::is_same_v<T, float>) {
    return f.template operator()<2, 16>() || f.template operator()<4, 16>() || f.template operator()<8, 16>() ||
           f.template operator()<8, 20>() || f.template operator()<8, 28>() || f.template operator()<8, 32>() ||
           f.template operator()<16, 20>() || f.template operator()<16, 28>() || f.template operator()<16, 32>() ||
           f.template operator()<32, 20>() || f.template operator()<32, 24>() || f.template operator()<32, 28>() ||
           f.template operator()<32, 32>() || f.template operator()<32, 36>() || f.template operator()<32, 44>() ||
           f.template operator()<32, 52>() || f.template operator()<32, 64>();
  } else {
    const bool found = f.template operator()<2, 16>() || f.template operator()<4, 16>() ||
                       f.template operator()<8, 16>() || f.template operator()<8, 32>() ||
                       f.template operator()<16, 32>() || f.template operator()<32, 24>() ||
                       f.template operator()<32, 32>();
    if constexpr (sizeof(T) == 4) {
      return found || f.template operator()<32, 64>();
    } else {
      return found;
    }
  }
}

/// The same for rows at any address. No config has the R of an aligned one, so that a plan tells them apart.
///
/// The fewer lanes a row has, the more rows share the fixed cost of a tile. Measured, 4 lanes against 8, normal data,
/// f32: 73 columns, k 24: 1.46, 1.69; 81 columns, k 14: 1.78, 2.23; 97 columns, k 7: 1.97, 2.17.
template <class T, class F>
constexpr bool for_unaligned_variants(F&& f) {
  if constexpr (sizeof(T) == 2) {
    return f.template operator()<2, 28>() || f.template operator()<4, 28>() || f.template operator()<4, 44>() ||
           f.template operator()<4, 60>() || f.template operator()<8, 28>() || f.template operator()<8, 44>() ||
           f.template operator()<8, 60>() || f.template operator()<16, 44>() || f.template operator()<16, 60>() ||
           f.template operator()<32, 44>() || f.template operator()<32, 60>();
  } else {
    const bool found =
        f.template operator()<2, 14>() || f.template operator()<4, 14>() || f.template operator()<4, 22>() ||
        f.template operator()<4, 30>() || f.template operator()<8, 14>() || f.template operator()<8, 22>() ||
        f.template operator()<8, 30>() || f.template operator()<16, 22>() || f.template operator()<16, 30>() ||
        f.template operator()<32, 22>() || f.template operator()<32, 30>();
    if constexpr (sizeof(T) == 4) {
      return found || f.template operator()<32, 46>() || f.template operator()<32, 62>();
    } else {
      return found;
    }
  }
}

/// The same for short general rows.
template <class T, class F>
constexpr bool for_ragged_variants(F&& f) {
  if constexpr (sizeof(T) == 2) {
    return f.template operator()<2, 28>() || f.template operator()<4, 28>() || f.template operator()<4, 44>() ||
           f.template operator()<8, 44>() || f.template operator()<8, 60>() || f.template operator()<16, 60>() ||
           f.template operator()<32, 60>();
  } else {
    // Four rows of 44 elements a lane share what two of 22 would.
    constexpr int kMiddle = std::is_same_v<T, float> ? 8 : 16;
    const bool found = f.template operator()<2, 14>() || f.template operator()<4, 14>() ||
                       f.template operator()<8, 14>() || f.template operator()<8, 22>() ||
                       f.template operator()<kMiddle, 352 / kMiddle>() || f.template operator()<16, 30>() ||
                       f.template operator()<32, 30>();
    if constexpr (sizeof(T) == 4) {
      return found || f.template operator()<32, 62>();
    } else {
      return found;
    }
  }
}

}  // namespace rtopk::cuda
