// The numbers of a selection whose rows do not lie side by side: they are copied to the workspace, a chunk at a time, and the
// families read them there. Host code alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include <rtopk/select.hpp>

#include "core/placement.hpp"

namespace rtopk::cuda {

/// Bytes of a chunk: less than half of the L2 of an H100 or H200 (50 and 60 MB), so that what was copied is still there when it
/// is read, beside what the copy itself reads. Memory is then read once and hardly written.
inline constexpr std::int64_t kChunkBytes = std::int64_t{24} << 20;

/// Memory is read in sectors: of long rows, as many as share one are copied together.
inline constexpr std::int64_t kSectorBytes = 32;

/// Rows of a chunk that a plan may have: they are counted in 32 bits.
inline constexpr std::int64_t kMaxChunkRows = 0x7fffffff;

[[nodiscard]] constexpr bool is_gathered(const Problem& problem) noexcept {
  return !core::elements_are_adjacent(problem) || !core::has_one_group(problem);
}

/// Rows of a chunk of a gathered problem. All chunks have about as many, so that what suits one suits the last one too.
[[nodiscard]] constexpr std::int64_t chunk_rows_of(const Problem& problem) noexcept {
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t rows = std::max(problem.rows, std::int64_t{1});
  const std::int64_t most = std::max(kChunkBytes / element / problem.cols, kSectorBytes / element);
  const std::int64_t chunks = (rows - 1) / most + 1;
  return (rows - 1) / chunks + 1;
}

/// The plan of `rows` rows of a chunk, which lie side by side.
[[nodiscard]] constexpr Plan chunk_plan(const Plan& plan, std::int64_t rows) noexcept {
  Plan chunk = plan;
  chunk.problem = core::tight(plan.problem, rows);
  chunk.chunk_rows = 0;
  // The one family whose grid must fit the rows; others leave blocks without rows idle.
  if (chunk.family == Family::cuda_cluster && rows < plan.chunk_rows) chunk.blocks = rows * plan.parts;
  return chunk;
}

}  // namespace rtopk::cuda
