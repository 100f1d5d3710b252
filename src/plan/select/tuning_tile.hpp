// CPU: how many rows with non-adjacent elements are copied to a task's scratch at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include <rtopk/select.hpp>

#include "core/placement.hpp"

namespace rtopk::cpu {

/// Rows that share a cache line are copied together, so that each line is read once.
inline constexpr std::int64_t kTileLineBytes = 64;

/// A tile takes several lines, until it has this many bytes: each column lies in a page of its own, and some families
/// take more rows at once than a line has. Measured on a Neoverse N1, 1000 x 1000, f32: 1 line 3.6 ms, 8 lines 2.2 ms.
inline constexpr std::int64_t kWideTileBytes = 512 << 10;
inline constexpr std::int64_t kMaxTileLines = 8;
/// Leaves at least this many tiles for the tasks to share.
inline constexpr std::int64_t kMinTiles = 32;

/// A tile of long rows has fewer rows, until it has no more than this many bytes. A single row may have more.
inline constexpr std::int64_t kMaxTileBytes = std::int64_t{16} << 20;

/// Rows of a tile; 0 if rows are read in place.
[[nodiscard]] inline std::int64_t tile_rows(const Problem& problem) noexcept {
  if (core::elements_are_adjacent(problem)) return 0;
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t line = kTileLineBytes / element;
  const std::int64_t lines =
      std::clamp(std::min(kWideTileBytes / kTileLineBytes / problem.cols, problem.rows / line / kMinTiles),
                 std::int64_t{1}, kMaxTileLines);
  const std::int64_t of_line = lines * line / core::stride_of(problem);
  const std::int64_t of_scratch = kMaxTileBytes / element / problem.cols;
  const std::int64_t there = std::min(problem.rows, core::group_rows_of(problem));
  return std::max(std::min({of_line, of_scratch, there}), std::int64_t{1});
}

/// Elements from one row of a tile to the next: an odd number of cache lines, so that rows do not compete for the same
/// cache sets.
[[nodiscard]] inline std::int64_t tile_pitch(const Problem& problem) noexcept {
  const std::int64_t line = kTileLineBytes / static_cast<std::int64_t>(size_of(problem.dtype));
  return ((problem.cols + line - 1) / line | 1) * line;
}

}  // namespace rtopk::cpu
