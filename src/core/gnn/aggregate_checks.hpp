// What an aggregation must satisfy, checked before anything runs.
#pragma once

#include <rtopk/gnn/aggregate.hpp>

namespace rtopk::core {

Status check_problem(const gnn::Aggregation& problem) noexcept;
Status check_problem(const gnn::Transposition& problem) noexcept;

/// Pointers, alignment, overlap and workspace of a run of a plan whose problem is valid.
Status check_call(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, Workspace workspace) noexcept;
Status check_call(const gnn::TranspositionPlan& plan, const gnn::Graph& graph, const gnn::TransposedGraph& transposed,
                  Workspace workspace) noexcept;

/// Whether the result has no element, so that there is nothing to do.
[[nodiscard]] constexpr bool is_empty(const gnn::Aggregation& problem) noexcept {
  return (problem.term == gnn::AggregationTerm::forward ? problem.rows : problem.nodes) == 0;
}

}  // namespace rtopk::core
