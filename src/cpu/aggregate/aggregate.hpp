// Interface of aggregations, transpositions and graphs with own edges on the CPU.
#pragma once

#include <cstdint>

#include <rtopk/gnn/aggregate.hpp>

#include "internal/own_edges.hpp"

namespace rtopk::cpu {

/// Picks the config for a checked problem.
Status make_plan(const gnn::Aggregation& problem, const Traits& traits, gnn::AggregationPlan& plan) noexcept;

/// Checks that run() can execute `plan`. Plans are plain values, so the caller may have changed them.
Status check_plan(const gnn::AggregationPlan& plan) noexcept;

/// Executes a checked plan with a checked call. `executor` may be null.
void run(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, void* workspace,
         const Executor* executor) noexcept;

/// Y = A X in f32 for rows [begin, end) where the values of X are dense rows: in vectors, with the same bits as by
/// selectors. Only where has_simd(). The last argument is not used.
void aggregate_dense(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, std::int64_t begin,
                     std::int64_t end, float*);

/// Needs no workspace.
void run(const gnn::TranspositionPlan& plan, const gnn::Graph& graph, const gnn::TransposedGraph& transposed) noexcept;

void run(const gnn::OwnEdges& problem, const gnn::Graph& graph, const gnn::OwnEdgesResult& result) noexcept;

}  // namespace rtopk::cpu
