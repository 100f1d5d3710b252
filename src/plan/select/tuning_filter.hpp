// The config of cuda_filter's kernel, for the plan and for the kernel.
#pragma once

#include <cstdint>

namespace rtopk::cuda {

inline constexpr int kFilterWarpsPerBlock = 2;
inline constexpr int kFilterMaxSorted = 128;  ///< The largest k whose results a warp sorts by itself.

/// A warp streams a row in pieces. Each lane has one line of a piece: neighbouring elements.
template <class T>
struct FilterConfig {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));  ///< Elements of one copy.
  static constexpr int kLineVectors = 8;                            ///< A line is as wide as all banks together.
  static constexpr int kLineBytes = 16 * kLineVectors;
  static constexpr int kLine = kVector * kLineVectors;  ///< Elements of a lane.
  static constexpr int kPiece = 32 * kLine;             ///< Elements of a piece.
  static constexpr int kPieceBytes = 32 * kLineBytes;
  static constexpr int kStages = 2;                 ///< The current piece and the next one, which is being copied.
  static constexpr int kWords = (kLine + 31) / 32;  ///< One bit for each element of a line.

  static constexpr int kStateBytes = 128;

  static constexpr std::int64_t root_up(std::int64_t x) {
    std::int64_t root = 1;
    while (root * root < x) ++root;
    return root;
  }

  /// Candidates that the list has room for. If a threshold is meant for k elements, the number that reach it varies by
  /// about sqrt(k) from row to row, and the rows' distributions differ a little too.
  static constexpr std::int64_t capacity(std::int64_t k) {
    const std::int64_t spread = 8 * root_up(k);
    return (k + (spread > 192 ? spread : 192) + 31) / 32 * 32;
  }
  /// The kth value of up to this many candidates is searched in few registers, so that more warps fit.
  static constexpr int kShortList = sizeof(T) == 8 ? 320 : 704;

  static constexpr std::int64_t warp_bytes(std::int64_t k) {
    return kStages * kPieceBytes + kStateBytes +
           (capacity(k) * static_cast<std::int64_t>(sizeof(T) + 4) + 127) / 128 * 128;
  }
  static constexpr int kArgumentBytes = 256;
  static constexpr std::int64_t shared_bytes(std::int64_t k) {
    return kArgumentBytes + kFilterWarpsPerBlock * warp_bytes(k);
  }

  /// Blocks that the registers of a multiprocessor of sm_90 allow.
  static constexpr int kBlocksOfShortLists = sizeof(T) == 8 ? 8 : 10;
  static constexpr int kBlocksOfLongLists = 6;
  static constexpr int blocks_per_multiprocessor(std::int64_t k) {
    return capacity(k) <= kShortList ? kBlocksOfShortLists : kBlocksOfLongLists;
  }
};

inline constexpr std::int64_t kMaxFilteredCols = 0x7fffffff - 65536;  ///< Columns are held in 32 bits.

}  // namespace rtopk::cuda
