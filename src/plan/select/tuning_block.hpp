// The configs of cuda_block's kernel, for the plan and for the kernel.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rtopk::cuda {

/// W warps share a row; each lane holds R elements of it.
template <class T, int W>
struct BlockConfig {
  static constexpr int kThreads = 32 * W;
  static constexpr int kElements = sizeof(T) == 8 ? 16 : 32;        ///< Of a lane: R.
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));  ///< Neighbouring elements of a lane: one load.
  static constexpr int kChunks = kElements / kVector;               ///< Loads of a lane.
  static constexpr int kChunkCols = kVector * kThreads;             ///< Elements that one load of all lanes covers.
  static constexpr int kCols = kElements * kThreads;                ///< The longest row.
  static constexpr int kRowBytes = kCols * static_cast<int>(sizeof(T));
  static constexpr int kStages = 2;  ///< The current row and the next one, which is being copied.
  static constexpr int kPartials = 2 * W + kChunks * W + (kChunks * W % 2);
  static constexpr int kNoteBytes = 64;
  static constexpr int kMinListBytes = 1024;  ///< Between rows the list's memory has other uses.

  /// The list holds the columns of the k selected elements.
  static constexpr std::int64_t list_bytes(std::int64_t k) {
    return std::max(std::int64_t{kMinListBytes}, (2 * std::min(k, std::int64_t{kCols}) + 15) / 16 * 16);
  }
  static constexpr std::int64_t shared_bytes(std::int64_t k) {
    return kStages * kRowBytes + list_bytes(k) + 4 * kPartials + kNoteBytes;
  }
  /// What the registers of a multiprocessor of sm_90 allow, and its shared memory if k is small.
  static constexpr int kWarpsPerMultiprocessor = sizeof(T) == 8 ? 20 : 24;
  static constexpr int kBlocksPerMultiprocessor = W == 16 ? 1 : kWarpsPerMultiprocessor / W;
};

/// Calls `f.template operator()<W>()` for the variants that are compiled, shortest rows first, until it returns true.
template <class F>
constexpr bool for_block_variants(F&& f) {
  return f.template operator()<2>() || f.template operator()<4>() || f.template operator()<8>() ||
         f.template operator()<16>();
}

}  // namespace rtopk::cuda
