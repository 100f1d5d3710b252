// Aggregations and transpositions on the CPU, as the rest of the library sees them.
#pragma once

#include <rtopk/aggregate.hpp>

namespace rtopk::cpu {

/// Picks numbers for a problem that was checked.
Status make_plan(const Aggregation& problem, const Traits& traits, AggregationPlan& plan) noexcept;

/// Whether `plan` is one that run() can carry out: plans are plain values and may have been changed.
Status check_plan(const AggregationPlan& plan) noexcept;

/// Runs a plan and a call that were checked. `executor` may be null.
void run(const AggregationPlan& plan, const AggregationCall& call, void* workspace, const Executor* executor) noexcept;

/// Needs no workspace.
void run(const TranspositionPlan& plan, const Graph& graph, const TransposedGraph& transposed) noexcept;

}  // namespace rtopk::cpu
