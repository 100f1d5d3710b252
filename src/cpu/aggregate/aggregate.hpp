// Aggregations and transpositions on the CPU, as the rest of the library sees them.
#pragma once

#include <rtopk/gnn/aggregate.hpp>

namespace rtopk::cpu {

/// Picks numbers for a problem that was checked.
Status make_plan(const gnn::Aggregation& problem, const Traits& traits, gnn::AggregationPlan& plan) noexcept;

/// Whether `plan` is one that run() can carry out: plans are plain values and may have been changed.
Status check_plan(const gnn::AggregationPlan& plan) noexcept;

/// Runs a plan and a call that were checked. `executor` may be null.
void run(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, void* workspace,
         const Executor* executor) noexcept;

/// Needs no workspace.
void run(const gnn::TranspositionPlan& plan, const gnn::Graph& graph, const gnn::TransposedGraph& transposed) noexcept;

}  // namespace rtopk::cpu
