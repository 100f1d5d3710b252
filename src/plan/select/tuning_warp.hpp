// The configs of cuda_warp's kernel, for the plan and for the kernel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rtopk::cuda {

inline constexpr int kWarpsPerBlock = 4;
inline constexpr int kMaxTilesPerWarp = 32;  ///< A warp marks the tiles that it defers in one word.

/// G lanes share a row; each holds R neighbouring elements of it. A warp works on 32 / G rows at a time: a tile.
template <class T, int G, int R>
struct WarpConfig {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));  ///< Elements of a vector: one load.
  static constexpr int kVectors = R / kVector;                      ///< Vectors of a lane.
  static constexpr int kCols = R * G;                               ///< The longest row.
  static constexpr int kRows = 32 / G;                              ///< Rows of a tile.
  static constexpr int kTileElements = 32 * R;
  static constexpr int kTileBytes = kTileElements * static_cast<int>(sizeof(T));
  static constexpr int kStages = 2;  ///< One tile is searched while the next one is being copied.
  static constexpr int kSortedPerLane = std::max(2, std::min(16, 128 / G));
  static constexpr int kSorted = G * kSortedPerLane;  ///< The largest k that this kernel sorts by value.
  static constexpr int kRanked = G == 2 ? 8 : 16;     ///< A search ends by ranking the last elements, up to this many.

  /// Swizzle of a tile's vectors in shared memory. Lanes read vectors that lie kVectors apart, and copies write
  /// neighbouring ones. To avoid bank conflicts in both, the lowest bits of a vector's index are XORed with those of
  /// the lane that reads it.
  static constexpr bool kSwizzled = (kVectors & (kVectors - 1)) == 0;
  static constexpr int kSwizzleSpan = std::max(kVectors, 8);
  static constexpr int kSwizzleMask = kSwizzled ? std::min(kVectors, 8) - 1 : 0;
  static constexpr int place_of_vector(int vector) { return vector ^ ((vector / kSwizzleSpan) & kSwizzleMask); }

  /// Columns that the list of a row's results has room for.
  static constexpr int list_cols(std::int64_t k, bool by_value) {
    // Before the list is filled, its memory holds the values that are ranked. 16-bit elements are searched as f32.
    constexpr int kForRanks = kRanked * std::max(4, static_cast<int>(sizeof(T))) / 2;
    return std::max({static_cast<int>((k + 7) / 8 * 8), kForRanks, by_value ? kSorted : 0});
  }
  static constexpr int warp_bytes(std::int64_t k, bool by_value) {
    return kStages * kTileBytes + (kRows * list_cols(k, by_value) * 2 + 127) / 128 * 128;
  }
  static constexpr std::size_t shared_bytes(std::int64_t k, bool by_value) {
    return static_cast<std::size_t>(kWarpsPerBlock * warp_bytes(k, by_value));
  }

  /// As many blocks as the registers of a multiprocessor allow without spilling. The more warps, the better loads,
  /// searches and stores overlap.
  static constexpr int kRegisters = R * static_cast<int>(sizeof(T)) / 4;  ///< Registers that hold the elements.
  static constexpr int kBlocksPerMultiprocessor = kRegisters > 32         ? 3
                                                  : sizeof(T) == 8        ? 4
                                                  : std::is_integral_v<T> ? 5
                                                  : kRegisters <= 16      ? 8
                                                  : kRegisters <= 24      ? 7
                                                                          : 6;
};

/// Calls `f.template operator()<G, R>()` for the compiled configs, shortest rows first, until it returns true.
template <class T, class F>
constexpr bool for_warp_variants(F&& f) {
  // Measured at 128 columns: 8 lanes of 16 elements take 1.31 times the floor, 4 of 32 take 1.65. 16-bit elements take
  // half a register each: with 64 in a lane, twice as many elements share the fixed cost of a row (768 columns, k 16:
  // 1.47 against 1.88).
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
