// The shapes of cuda_warp's kernel, for the plan and for the kernel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rtopk::cuda {

inline constexpr int kWarpsPerBlock = 4;
inline constexpr int kMaxTilesPerWarp = 32;  ///< A warp marks those that it puts off in a word.

/// G lanes share a row; each holds R neighbouring elements of it. A warp works on 32 / G rows at a time: a tile.
template <class T, int G, int R>
struct WarpConfig {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));  ///< Elements of a vector: one load.
  static constexpr int kVectors = R / kVector;                      ///< Vectors of a lane.
  static constexpr int kCols = R * G;                               ///< The longest row.
  static constexpr int kRows = 32 / G;                              ///< Rows of a tile.
  static constexpr int kTileElements = 32 * R;
  static constexpr int kTileBytes = kTileElements * static_cast<int>(sizeof(T));
  static constexpr int kStages = 2;  ///< One tile is worked on while the next one arrives.
  static constexpr int kSortedPerLane = std::max(2, std::min(16, 128 / G));
  static constexpr int kSorted = G * kSortedPerLane;  ///< The largest k that is put in order by value here.
  static constexpr int kRanked = G == 2 ? 8 : 16;     ///< So many elements of a row are put in order to end its search.

  /// Where the vectors of a tile lie in shared memory. Lanes read vectors kVectors apart and copy neighbouring ones; so that
  /// neither meets in a bank, the lowest bits of a vector's number are changed by those of the lane that reads it.
  static constexpr bool kSwizzled = (kVectors & (kVectors - 1)) == 0;
  static constexpr int kSwizzleSpan = std::max(kVectors, 8);
  static constexpr int kSwizzleMask = kSwizzled ? std::min(kVectors, 8) - 1 : 0;
  static constexpr int place_of_vector(int vector) { return vector ^ ((vector / kSwizzleSpan) & kSwizzleMask); }

  /// Columns of the list of a row's results.
  static constexpr int list_cols(std::int64_t k, bool by_value) {
    // The list's room is used for the values that are ranked before: elements of 16 bits are searched as f32.
    constexpr int kForRanks = kRanked * std::max(4, static_cast<int>(sizeof(T))) / 2;
    return std::max({static_cast<int>((k + 7) / 8 * 8), kForRanks, by_value ? kSorted : 0});
  }
  static constexpr int warp_bytes(std::int64_t k, bool by_value) {
    return kStages * kTileBytes + (kRows * list_cols(k, by_value) * 2 + 127) / 128 * 128;
  }
  static constexpr std::size_t shared_bytes(std::int64_t k, bool by_value) {
    return static_cast<std::size_t>(kWarpsPerBlock * warp_bytes(k, by_value));
  }

  /// What the registers of a multiprocessor allow without spilling: the more warps, the better loads, searches and stores
  /// overlap.
  static constexpr int kRegisters = R * static_cast<int>(sizeof(T)) / 4;  ///< Of the elements.
  static constexpr int kBlocksPerMultiprocessor = kRegisters > 32         ? 3
                                                  : sizeof(T) == 8        ? 4
                                                  : std::is_integral_v<T> ? 5
                                                  : kRegisters <= 16      ? 8
                                                  : kRegisters <= 24      ? 7
                                                                          : 6;
};

/// Calls `f.template operator()<G, R>()` for the variants that are compiled, shortest rows first, until it returns true.
template <class T, class F>
constexpr bool for_warp_variants(F&& f) {
  // Measured at 128 columns: 8 lanes of 16 elements 1.31 times the floor, 4 of 32 1.65. Elements of 16 bits take half a register
  // each: with 64 to a lane, what a row costs beside its elements is shared by twice as many (768 columns, k 16: 1.47 and 1.88).
  if constexpr (sizeof(T) == 2) {
    return f.template operator()<2, 16>() || f.template operator()<2, 32>() || f.template operator()<4, 32>() ||
           f.template operator()<4, 64>() || f.template operator()<8, 32>() || f.template operator()<8, 64>() ||
           f.template operator()<16, 48>() || f.template operator()<16, 64>() || f.template operator()<32, 64>();
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

}  // namespace rtopk::cuda
