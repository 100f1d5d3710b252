// What an aggregation must satisfy, checked before anything runs.
#pragma once

#include <rtopk/aggregate.hpp>

namespace rtopk::core {

Status check_problem(const Aggregation& problem) noexcept;
Status check_problem(const Transposition& problem) noexcept;

/// Pointers, alignment, overlap and workspace of a run of a plan whose problem is valid.
Status check_call(const AggregationPlan& plan, const AggregationCall& call, Workspace workspace) noexcept;
Status check_call(const TranspositionPlan& plan, const Graph& graph, const TransposedGraph& transposed,
                  Workspace workspace) noexcept;

/// Whether the result has no element, so that there is nothing to do.
[[nodiscard]] constexpr bool is_empty(const Aggregation& problem) noexcept {
  return (problem.pass == Pass::forward ? problem.rows : problem.nodes) == 0;
}

}  // namespace rtopk::core
