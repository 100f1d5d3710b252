// The configs of cuda_tournament's kernel, for the plan and for the kernel.
#pragma once

#include <cstdint>

namespace rtopk::cuda {

inline constexpr int kTournamentWarps = 4;          ///< Of a block.
inline constexpr std::int64_t kTournamentMaxK = 8;  ///< The work grows with k: above this, a search is faster.

/// G lanes share a row; each owns R neighbouring elements of it. A warp works on 32 / G rows at a time: a tile.
template <class T, int G, int R>
struct TournamentConfig {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));  ///< Elements of one access.
  static constexpr int kVectors = R / kVector;                      ///< Accesses to a lane's elements.
  static constexpr int kCols = R * G;                               ///< The longest row.
  static constexpr int kRows = 32 / G;                              ///< Rows of a tile.
  /// Columns of a lane: as few as the row needs, in units of 8 registers, so that fewer padding elements are compared.
  static constexpr int kUnit = sizeof(T) == 2 ? 16 : 8;
  static constexpr int share(int cols) { return (cols + G * kUnit - 1) / (G * kUnit) * kUnit; }
  /// Elements from one lane's first element to the next lane's. The gap of one access avoids bank conflicts both for
  /// the copies, which go along rows, and for the lanes, which go along their own elements.
  static constexpr int kPitch = R + kVector;
  static constexpr int kTileElements = 32 * kPitch;
  static constexpr int kTileBytes = kTileElements * static_cast<int>(sizeof(T));
  static constexpr int kStages = 2;  ///< One is searched while the other is being filled.

  /// Results of a tile, which are written together: values, then columns.
  static constexpr int kValuesAt = kStages * kTileBytes;
  static constexpr int columns_at(int most_k) {
    return kValuesAt + (kRows * most_k * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
  }
  static constexpr int warp_bytes(int most_k) { return columns_at(most_k) + (kRows * most_k * 4 + 15) / 16 * 16; }
  static constexpr int shared_bytes(int most_k) { return kTournamentWarps * warp_bytes(most_k); }
  /// What shared memory (of sm_90, with the 1 KiB that every block needs besides) and registers allow.
  static constexpr int blocks_per_multiprocessor(int most_k) {
    constexpr int kRegisters = R == 64 ? 96 : 72;
    const int by_shared = 227 * 1024 / (shared_bytes(most_k) + 1024);
    const int by_registers = 65536 / (32 * kTournamentWarps * kRegisters);
    return by_shared < by_registers ? by_shared : by_registers;
  }
};

/// Calls `f.template operator()<G, R>()` for the compiled configs, shortest rows first, until it returns true. A lane's
/// elements fit in 32 registers; longer rows have more lanes.
template <class T, class F>
constexpr bool for_tournament_variants(F&& f) {
  if constexpr (sizeof(T) == 2) {
    return f.template operator()<1, 32>() || f.template operator()<1, 64>() || f.template operator()<2, 64>() ||
           f.template operator()<4, 64>() || f.template operator()<8, 64>() || f.template operator()<16, 64>();
  } else if constexpr (sizeof(T) == 4) {
    return f.template operator()<1, 32>() || f.template operator()<2, 32>() || f.template operator()<4, 32>() ||
           f.template operator()<8, 32>() || f.template operator()<16, 32>() || f.template operator()<32, 32>();
  } else {
    return false;  // two registers for each element: no gain over cuda_warp
  }
}

/// The compiled lengths of a lane's list.
constexpr int tournament_list(std::int64_t k) { return k <= 2 ? 2 : k <= 4 ? 4 : 8; }

}  // namespace rtopk::cuda
