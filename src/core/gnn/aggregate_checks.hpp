// Argument checks of aggregations, transpositions and graphs with own edges, made before anything runs.
#pragma once

#include <rtopk/gnn/aggregate.hpp>

#include "internal/own_edges.hpp"

namespace rtopk::core {

Status check_problem(const gnn::Aggregation& problem) noexcept;
Status check_problem(const gnn::Transposition& problem) noexcept;
Status check_problem(const gnn::OwnEdges& problem) noexcept;

/// Checks pointers, alignment, overlap and workspace of a run. The plan's problem must be valid.
Status check_call(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, Workspace workspace) noexcept;
Status check_call(const gnn::TranspositionPlan& plan, const gnn::Graph& graph, const gnn::TransposedGraph& transposed,
                  Workspace workspace) noexcept;
Status check_call(const gnn::OwnEdges& problem, const gnn::Graph& graph, const gnn::OwnEdgesResult& result) noexcept;

/// True if the result has no elements.
[[nodiscard]] constexpr bool is_empty(const gnn::Aggregation& problem) noexcept {
  return (problem.term == gnn::AggregationTerm::forward ? problem.rows : problem.nodes) == 0;
}

}  // namespace rtopk::core
