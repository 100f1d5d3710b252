// The shape of cuda_filter's kernel, for the plan and for the kernel.
#pragma once

#include <cstdint>

namespace rtopk::cuda {

inline constexpr int kFilterWarpsPerBlock = 2;
inline constexpr int kFilterMaxSorted = 128;  ///< The largest k whose results a warp puts in order by itself.

/// A warp streams a row in pieces. Each lane has one line of neighbouring elements of a piece.
template <class T>
struct FilterConfig {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));  ///< Elements of one copy.
  static constexpr int kLineVectors = 8;                            ///< A line is as wide as all banks together.
  static constexpr int kLineBytes = 16 * kLineVectors;
  static constexpr int kLine = kVector * kLineVectors;  ///< Elements of a lane.
  static constexpr int kPiece = 32 * kLine;             ///< Elements of a piece.
  static constexpr int kPieceBytes = 32 * kLineBytes;
  static constexpr int kStages = 2;                 ///< The piece at hand and those that are on their way.
  static constexpr int kWords = (kLine + 31) / 32;  ///< For a bit for each element of a line.

  static constexpr int kStateBytes = 128;

  static constexpr std::int64_t root_up(std::int64_t x) {
    std::int64_t root = 1;
    while (root * root < x) ++root;
    return root;
  }

  /// Candidates that find room. The number of elements above a threshold that k of them should reach varies by the root of
  /// k from row to row; rows are not quite alike either.
  static constexpr std::int64_t capacity(std::int64_t k) {
    const std::int64_t spread = 8 * root_up(k);
    return (k + (spread > 192 ? spread : 192) + 31) / 32 * 32;
  }
  /// Up to so many candidates the border is searched in few registers, so that more warps find room.
  static constexpr int kShortList = sizeof(T) == 8 ? 320 : 704;

  static constexpr std::int64_t warp_bytes(std::int64_t k) {
    return kStages * kPieceBytes + kStateBytes +
           (capacity(k) * static_cast<std::int64_t>(sizeof(T) + 4) + 127) / 128 * 128;
  }
  static constexpr int kArgumentBytes = 256;
  static constexpr std::int64_t shared_bytes(std::int64_t k) {
    return kArgumentBytes + kFilterWarpsPerBlock * warp_bytes(k);
  }

  /// Blocks for which a multiprocessor of sm_90 has registers.
  static constexpr int kBlocksOfShortLists = sizeof(T) == 8 ? 8 : 10;
  static constexpr int kBlocksOfLongLists = 6;
  static constexpr int blocks_per_multiprocessor(std::int64_t k) {
    return capacity(k) <= kShortList ? kBlocksOfShortLists : kBlocksOfLongLists;
  }
};

inline constexpr std::int64_t kMaxFilteredCols = 0x7fffffff - 65536;  ///< Columns are held in 32 bits.

}  // namespace rtopk::cuda
