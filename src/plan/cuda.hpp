// Plans for the CUDA backend. Host code that every build has: a GPU plan can be made and checked without a GPU and
// without nvcc.
#pragma once

#include <optional>

#include <rtopk/gnn/aggregate.hpp>
#include <rtopk/gnn/norm.hpp>
#include <rtopk/gnn/product.hpp>
#include <rtopk/moe/route.hpp>
#include <rtopk/select.hpp>

#include "internal/linear.hpp"

namespace rtopk::cuda {

// make_plan picks the family and its config for a problem that was already checked. check_plan tells whether run() can
// execute a plan: plans are plain values that the caller may have changed.

/// `wanted`: the family to use. Without it make_plan picks one.
Status make_plan(const Problem& problem, const Traits& traits, std::optional<Family> wanted, Plan& plan) noexcept;
Status check_plan(const Plan& plan) noexcept;
/// Changes a plan of cuda_warp for rows that would be aligned if the first one were. False if there is no such config,
/// and the plan has to do.
bool use_unaligned_rows(Plan& plan) noexcept;
/// Changes it to a plan of cuda_block, for rows that it would have to copy element by element. False if that needs
/// another workspace.
bool use_block(Plan& plan) noexcept;

Status make_plan(const gnn::Aggregation& problem, gnn::AggregationPlan& plan) noexcept;
Status check_plan(const gnn::AggregationPlan& plan) noexcept;

Status make_plan(const gnn::Product& problem, const Traits& traits, gnn::ProductPlan& plan) noexcept;
Status check_plan(const gnn::ProductPlan& plan) noexcept;

Status make_plan(const gnn::Norm& problem, const Traits& traits, gnn::NormPlan& plan) noexcept;
Status check_plan(const gnn::NormPlan& plan) noexcept;

Status make_plan(const gnn::Linear& problem, const Traits& traits, gnn::LinearPlan& plan) noexcept;
Status check_plan(const gnn::LinearPlan& plan) noexcept;

Status make_plan(const moe::Route& problem, const Traits& traits, moe::RoutePlan& plan) noexcept;
Status check_plan(const moe::RoutePlan& plan) noexcept;

}  // namespace rtopk::cuda
