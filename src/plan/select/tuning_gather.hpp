// The config of a selection whose rows are not contiguous: they are gathered to the workspace, one chunk at a time, and
// the families read them there. Host code only.
#pragma once

#include <algorithm>
#include <cstdint>

#include <rtopk/select.hpp>

#include "core/placement.hpp"

namespace rtopk::cuda {

/// Bytes of a chunk: less than half of the L2 of an H100 or H200 (50 and 60 MB). The gathered rows are then still in
/// the cache when they are read, beside what the copy itself reads, so memory is read once and hardly written.
inline constexpr std::int64_t kChunkBytes = std::int64_t{24} << 20;

/// Memory is read in sectors. Of long rows, a chunk has at least as many as share a sector.
inline constexpr std::int64_t kSectorBytes = 32;

/// The most rows of a chunk in a plan: they are counted in 32 bits.
inline constexpr std::int64_t kMaxChunkRows = 0x7fffffff;

[[nodiscard]] constexpr bool is_gathered(const Problem& problem) noexcept {
  return !core::elements_are_adjacent(problem) || !core::has_one_group(problem);
}

/// Rows of a chunk. All chunks have about the same number, so that one config suits all of them.
[[nodiscard]] constexpr std::int64_t chunk_rows_of(const Problem& problem) noexcept {
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t rows = std::max(problem.rows, std::int64_t{1});
  const std::int64_t most = std::max(kChunkBytes / element / problem.cols, kSectorBytes / element);
  const std::int64_t chunks = (rows - 1) / most + 1;
  return (rows - 1) / chunks + 1;
}

/// The plan for `rows` rows of a chunk, which are contiguous.
[[nodiscard]] constexpr Plan chunk_plan(const Plan& plan, std::int64_t rows) noexcept {
  Plan chunk = plan;
  chunk.problem = core::tight(plan.problem, rows);
  chunk.chunk_rows = 0;
  // The families whose grid must match the rows; in the others, blocks without rows stay idle.
  const bool matches = chunk.family == Family::cuda_block || chunk.family == Family::cuda_cluster;
  if (matches && rows < plan.chunk_rows) chunk.blocks = rows * std::max(plan.parts, std::int64_t{1});
  return chunk;
}

}  // namespace rtopk::cuda
