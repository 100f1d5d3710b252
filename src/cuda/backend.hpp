// The CUDA backend as the rest of the library sees it.
#pragma once

#include <rtopk/aggregate.hpp>
#include <rtopk/linear.hpp>
#include <rtopk/norm.hpp>
#include <rtopk/plan.hpp>
#include <rtopk/product.hpp>
#include <rtopk/rtopk.hpp>

namespace rtopk::cuda {

Status query_traits(Device device, Traits& traits) noexcept;

/// Picks family and numbers for a problem that was checked.
Status make_plan(const Problem& problem, const Traits& traits, Plan& plan) noexcept;

/// Whether `plan` is one that run() can carry out: plans are plain values and may have been changed.
Status check_plan(const Plan& plan) noexcept;

/// Queues a plan and a call that were checked on `stream`.
Status run(const Plan& plan, const void* input, const Output& output, void* workspace, void* stream) noexcept;

// The same for an aggregation.
Status make_plan(const Aggregation& problem, AggregationPlan& plan) noexcept;
Status check_plan(const AggregationPlan& plan) noexcept;
Status run(const AggregationPlan& plan, const AggregationCall& call, void* workspace, void* stream) noexcept;

// For a product of compact rows.
Status make_plan(const Product& problem, const Traits& traits, ProductPlan& plan) noexcept;
Status check_plan(const ProductPlan& plan) noexcept;
Status run(const ProductPlan& plan, const ProductCall& call, void* workspace, void* stream) noexcept;

// And for the transposition of a graph.
Status make_plan(const Transposition& problem, TranspositionPlan& plan) noexcept;
Status run(const TranspositionPlan& plan, const Graph& graph, const TransposedGraph& transposed, void* workspace,
           void* stream) noexcept;

// And for a normalization of rows.
Status make_plan(const Norm& problem, const Traits& traits, NormPlan& plan) noexcept;
Status check_plan(const NormPlan& plan) noexcept;
Status run(const NormPlan& plan, const NormCall& call, void* workspace, void* stream) noexcept;

// And for a linear map of dense rows.
Status make_plan(const Linear& problem, const Traits& traits, LinearPlan& plan) noexcept;
Status check_plan(const LinearPlan& plan) noexcept;
Status run(const LinearPlan& plan, const LinearCall& call, void* workspace, void* stream) noexcept;

}  // namespace rtopk::cuda
