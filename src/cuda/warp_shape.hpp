// The shapes of cuda_warp's kernel, for the plan and for the kernel.
#pragma once

#include <algorithm>

namespace rtopk::cuda {

inline constexpr int kWarpsPerBlock = 4;
inline constexpr int kMostTilesPerWarp = 64;  ///< A warp marks those that it puts off in a word.

/// G lanes share a row; each holds R elements of it. A warp works on 32 / G rows at a time: a tile.
template <class T, int G, int R>
struct WarpShape {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));  ///< Neighbouring elements of a lane: one load.
  static constexpr int kChunks = R / kVector;                       ///< Loads of a lane.
  static constexpr int kChunkCols = kVector * G;  ///< Elements of a row that one load of all its lanes covers.
  static constexpr int kCols = R * G;             ///< The longest row.
  static constexpr int kRows = 32 / G;            ///< Rows of a tile.
  static constexpr int kTileElements = 32 * R;
  static constexpr int kTileBytes = kTileElements * static_cast<int>(sizeof(T));
  static constexpr int kStages = kTileBytes <= 1024 ? 4 : kTileBytes <= 2048 ? 3 : 2;
  static constexpr int kSortedPerLane = std::max(2, std::min(16, 128 / G));
  static constexpr int kSorted = G * kSortedPerLane;  ///< The largest k that is put in order by value here.
  static constexpr int kListCols = std::max(kCols, kSorted);
  static constexpr int kListBytes = kRows * kListCols * 2;
  static constexpr int kWarpBytes = (kStages * kTileBytes + kListBytes + 15) / 16 * 16;
  static constexpr int kSharedBytes = kWarpsPerBlock * kWarpBytes;
  /// What the registers of a multiprocessor allow without spilling: the more warps, the better loads, searches and stores
  /// overlap.
  static constexpr int kRegisters = R * static_cast<int>(sizeof(T) == 8 ? 2 : 1);
  static constexpr int kBlocksPerMultiprocessor = sizeof(T) == 8     ? (R <= 8    ? 6
                                                                        : R <= 24 ? 4
                                                                                  : 3)
                                                  : kRegisters <= 16 ? 8
                                                                     : 6;
};

/// Calls `f.template operator()<G, R>()` for the variants that are compiled, shortest rows first, until it returns true.
template <class F>
constexpr bool for_warp_variants(F&& f) {
  return f.template operator()<2, 16>() || f.template operator()<4, 16>() || f.template operator()<8, 16>() ||
         f.template operator()<16, 16>() || f.template operator()<32, 16>() || f.template operator()<32, 24>() ||
         f.template operator()<32, 32>();
}

}  // namespace rtopk::cuda
