// The interface of the CUDA backend to the rest of the library. plan/cuda.hpp makes its plans.
#pragma once

#include <rtopk/gnn/aggregate.hpp>
#include <rtopk/gnn/norm.hpp>
#include <rtopk/gnn/product.hpp>
#include <rtopk/moe/route.hpp>
#include <rtopk/select.hpp>

#include "internal/linear.hpp"

namespace rtopk::cuda {

/// The GPUs that this build has code for, as BuildInfo gives them.
const char* architectures() noexcept;

Status query_traits(Device device, Traits& traits) noexcept;

/// The only plan that needs the device: CUB tells how much workspace its sort takes there.
Status make_plan(const gnn::Transposition& problem, gnn::TranspositionPlan& plan) noexcept;

// Each enqueues on `stream` a plan and a call that were already checked.

Status run(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output, void* workspace,
           void* stream) noexcept;
Status run(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, void* workspace, void* stream) noexcept;
Status run(const gnn::TranspositionPlan& plan, const gnn::Graph& graph, const gnn::TransposedGraph& transposed,
           void* workspace, void* stream) noexcept;
Status run(const gnn::ProductPlan& plan, const gnn::ProductCall& call, void* workspace, void* stream) noexcept;
Status run(const gnn::NormPlan& plan, const gnn::NormCall& call, void* workspace, void* stream) noexcept;
Status run(const gnn::LinearPlan& plan, const gnn::LinearCall& call, void* workspace, void* stream) noexcept;
Status run(const moe::RoutePlan& plan, const moe::RouteCall& call, void* workspace, void* stream) noexcept;

}  // namespace rtopk::cuda
