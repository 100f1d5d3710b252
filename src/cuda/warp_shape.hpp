// The shapes of cuda_warp's kernel, for the plan and for the kernel.
#pragma once

namespace rtopk::cuda {

inline constexpr int kWarpsPerBlock = 4;

/// G lanes share a row; each holds R elements of it.
template <class T, int G, int R>
struct WarpShape {
  static constexpr int kVector = 16 / sizeof(T);      ///< Neighbouring elements of a lane: one load.
  static constexpr int kChunks = R / kVector;         ///< Loads of a lane.
  static constexpr int kChunkCols = kVector * G;      ///< Elements of a row that one load of all its lanes covers.
  static constexpr int kCols = R * G;                 ///< The longest row.
  static constexpr int kRows = 32 / G;                ///< Rows that a warp works on at a time.
  static constexpr int kTileElements = 32 * R;        ///< Of those rows.
  static constexpr int kTileBytes = kTileElements * sizeof(T);
  static constexpr int kStages = kTileBytes <= 1024 ? 4 : 3;
  static constexpr int kCandidatesPerLane = G == 4 ? 4 : 2;
  static constexpr int kCapacity = G * kCandidatesPerLane;  ///< Candidates of a row that are sorted in registers.
  static constexpr int kSortedPerLane = G == 32 || G == 4 ? 4 : 2;
  static constexpr int kSorted = G * kSortedPerLane;  ///< The largest k that is put in order by value here.
  static constexpr int kListBytes = kTileElements * 2;
  static constexpr int kWarpBytes = kStages * kTileBytes + kListBytes;
  static constexpr int kSharedBytes = kWarpsPerBlock * kWarpBytes;
};

/// Calls `f.template operator()<G, R>()` for the variants that are compiled, shortest rows first, until it returns true.
template <class F>
constexpr bool for_warp_variants(F&& f) {
  return f.template operator()<4, 8>() || f.template operator()<8, 8>() || f.template operator()<16, 8>() ||
         f.template operator()<32, 8>() || f.template operator()<32, 16>() || f.template operator()<32, 24>() ||
         f.template operator()<32, 32>();
}

}  // namespace rtopk::cuda
