// The shapes of cuda_block's kernel, for the plan and for the kernel.
#pragma once

#include <cstdint>

namespace rtopk::cuda {

/// W warps share a row; each lane holds R elements of it.
template <class T, int W>
struct BlockShape {
  static constexpr int kThreads = 32 * W;
  static constexpr int kElements = sizeof(T) == 8 ? 16 : 32;        ///< Of a lane: R.
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));  ///< Neighbouring elements of a lane: one load.
  static constexpr int kChunks = kElements / kVector;               ///< Loads of a lane.
  static constexpr int kChunkCols = kVector * kThreads;             ///< Elements that one load of all lanes covers.
  static constexpr int kCols = kElements * kThreads;                ///< The longest row.
  static constexpr int kRowBytes = kCols * static_cast<int>(sizeof(T));
  static constexpr int kStages = 2;  ///< The row at hand and the one that is on its way.
  static constexpr int kPartials = 2 * W + kChunks * W + 8;
  static constexpr int kSharedBytes = kStages * kRowBytes + 2 * kCols + 4 * kPartials;
  /// What the registers and the shared memory of a multiprocessor of sm_90 allow.
  static constexpr int kBlocksPerMultiprocessor = W <= 2 ? 10 : W == 4 ? 5 : W == 8 ? 2 : 1;
};

/// Calls `f.template operator()<W>()` for the variants that are compiled, shortest rows first, until it returns true.
template <class F>
constexpr bool for_block_variants(F&& f) {
  return f.template operator()<2>() || f.template operator()<4>() || f.template operator()<8>() ||
         f.template operator()<16>();
}

}  // namespace rtopk::cuda
