// Shared memory and workspace that an aggregation's config needs. Host code only.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/gnn/aggregate.hpp>

namespace rtopk::cuda {

inline constexpr std::int32_t kAggregateThreads = 128;  ///< Of a block. The same for every kernel that walks edges.

/// Rows of the graph that the kernels walk: A, or A^T for a gather.
[[nodiscard]] constexpr std::int64_t walked_rows(const gnn::AggregationPlan& plan) noexcept {
  return plan.needs_transposed() ? plan.problem.nodes : plan.problem.rows;
}

/// True if sums are made by atomic additions.
[[nodiscard]] constexpr bool scatters(const gnn::AggregationPlan& plan) noexcept {
  return plan.family == gnn::AggregationFamily::cuda_stream_scatter;
}

/// Slots of the pieces of edges. See cuda/aggregate/pieces.cuh.
[[nodiscard]] constexpr std::int64_t slots_of(const gnn::AggregationPlan& plan) noexcept {
  return (plan.problem.edges + plan.piece_edges - 1) / plan.piece_edges;
}

/// cuda_stream: floats of shared memory of a warp. One sum for each column of the window and each edge added at the
/// same time, and one private word for each lane.
[[nodiscard]] constexpr std::int64_t stream_words(std::int64_t window_cols, std::int64_t edges_at_once) noexcept {
  return window_cols * edges_at_once + 32;
}

/// cuda_stream_scatter: elements from one to the other of a warp's two rows of dY. 8-bit selectors cannot point outside
/// a row.
[[nodiscard]] constexpr std::int64_t stream_scatter_pitch(std::int64_t cols) noexcept {
  return cols <= 256 ? 256 : (cols + 15) / 16 * 16;
}

/// Of one warp.
[[nodiscard]] std::size_t shared_bytes_per_warp(const gnn::AggregationPlan& plan) noexcept;

/// Parts of the workspace, each aligned to 256 bytes.
struct AggregateWorkspace {
  std::size_t slot_rows = 0;
  std::size_t partial_sums = 0;
  std::size_t atomic_sums = 0;
  std::size_t bytes = 0;  ///< Includes room to align a base of any address.
};

[[nodiscard]] AggregateWorkspace aggregate_workspace(const gnn::AggregationPlan& plan) noexcept;

}  // namespace rtopk::cuda
