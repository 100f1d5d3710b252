// The CUDA backend as the rest of the library sees it. Its plans are made elsewhere: plan/cuda.hpp.
#pragma once

#include <rtopk/gnn/aggregate.hpp>
#include <rtopk/gnn/norm.hpp>
#include <rtopk/gnn/product.hpp>
#include <rtopk/select.hpp>

#include "internal/linear.hpp"

namespace rtopk::cuda {

Status query_traits(Device device, Traits& traits) noexcept;

/// The one plan that needs the device: CUB says how much workspace its sort takes there.
Status make_plan(const gnn::Transposition& problem, gnn::TranspositionPlan& plan) noexcept;

// Each queues a plan and a call that were checked on `stream`.

Status run(const Plan& plan, const void* input, const Output& output, void* workspace, void* stream) noexcept;
Status run(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, void* workspace, void* stream) noexcept;
Status run(const gnn::TranspositionPlan& plan, const gnn::Graph& graph, const gnn::TransposedGraph& transposed,
           void* workspace, void* stream) noexcept;
Status run(const gnn::ProductPlan& plan, const gnn::ProductCall& call, void* workspace, void* stream) noexcept;
Status run(const gnn::NormPlan& plan, const gnn::NormCall& call, void* workspace, void* stream) noexcept;
Status run(const gnn::LinearPlan& plan, const gnn::LinearCall& call, void* workspace, void* stream) noexcept;

}  // namespace rtopk::cuda
