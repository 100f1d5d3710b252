// How cuda_split cuts rows into parts, for the plan and for the run.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/plan.hpp>

namespace rtopk::cuda {

/// Elements of a part; the last one may have fewer. A multiple of 16 bytes, so that all parts begin as rows do.
[[nodiscard]] constexpr std::int64_t part_cols(const Problem& problem, std::int64_t parts) noexcept {
  const auto vector = static_cast<std::int64_t>(16 / size_of(problem.dtype));
  return ((problem.cols + parts - 1) / parts + vector - 1) / vector * vector;
}

/// Rows that are selected from at a time: the winners of all their parts lie in the workspace between two kernels.
[[nodiscard]] constexpr std::int64_t split_rows_at_once(const Plan& plan) noexcept {
  const std::int64_t rows = plan.blocks * plan.rows_per_block / plan.parts;
  return rows < 1 ? 1 : rows;
}

struct SplitLayout {
  std::size_t values;
  std::size_t columns;
  std::size_t bytes;
};

[[nodiscard]] constexpr SplitLayout split_layout(const Plan& plan) noexcept {
  const auto aligned = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
  const auto winners = static_cast<std::size_t>(split_rows_at_once(plan) * plan.parts * plan.problem.k);
  SplitLayout layout{};
  layout.columns = aligned(winners * size_of(plan.problem.dtype));
  layout.bytes = layout.columns + aligned(winners * sizeof(std::int32_t));
  return layout;
}

}  // namespace rtopk::cuda
