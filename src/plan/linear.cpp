// Picks the config of a linear map of dense rows. Host code only.
#include <algorithm>

#include "core/checks.hpp"
#include "plan/cuda.hpp"
#include "plan/tuning_linear.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::int64_t kMaxBlocks = 0x7fffffff;
// A part of fewer steps is too short: the partial sums that it leaves would cost too much beside it.
constexpr std::int64_t kMinSteps = 8;

std::size_t workspace_bytes(const gnn::LinearPlan& plan) {
  if (plan.parts == 1) return 0;
  const LinearShape shape = shape_of(plan.problem);
  // Includes room to align a base of any address.
  return static_cast<std::size_t>(plan.parts * shape.m * shape.n) * sizeof(float) + 255;
}

/// Checks that there can be a block for every tile of the result.
Status check_tiles(const gnn::Linear& problem) {
  if (shape_of(problem).tiles() <= kMaxBlocks) return {};
  return core::status(StatusCode::not_supported,
                      "rows is %lld, inputs %lld and outputs %lld; accepted: up to 2^31 - 1 blocks",
                      static_cast<long long>(problem.rows), static_cast<long long>(problem.inputs),
                      static_cast<long long>(problem.outputs));
}

}  // namespace

Status make_plan(const gnn::Linear& problem, const Traits& traits, gnn::LinearPlan& plan) noexcept {
  if (traits.compute_capability != 90 || traits.multiprocessors < 1 ||
      traits.shared_bytes_per_block < static_cast<std::int64_t>(kLinearSharedBytes)) {
    return core::status(
        StatusCode::not_supported,
        "traits have compute_capability %d, %d multiprocessors and %lld shared_bytes_per_block; accepted for a linear "
        "map: 90, whose tensor cores it is made for, 1 or more, %zu or more",
        traits.compute_capability, traits.multiprocessors, static_cast<long long>(traits.shared_bytes_per_block),
        kLinearSharedBytes);
  }
  if (Status status = check_tiles(problem); !status.ok()) return status;
  const LinearShape shape = shape_of(problem);
  gnn::LinearPlan made{.problem = problem};
  if (problem.term == gnn::LinearTerm::matrix_gradient) {
    const std::int64_t wanted = std::int64_t{kLinearBlocksPerMultiprocessor} * traits.multiprocessors / shape.tiles();
    made.parts =
        std::clamp<std::int64_t>(shape.depth / (kMinSteps * kLinearStep), 1, std::max<std::int64_t>(wanted, 1));
  }
  made.workspace_bytes = workspace_bytes(made);
  plan = made;
  return {};
}

Status check_plan(const gnn::LinearPlan& plan) noexcept {
  if (Status status = check_tiles(plan.problem); !status.ok()) return status;
  const LinearShape shape = shape_of(plan.problem);
  const bool divides = plan.problem.term == gnn::LinearTerm::matrix_gradient;
  // A part has at least one step.
  const std::int64_t steps = std::max<std::int64_t>((shape.depth + kLinearStep - 1) / kLinearStep, 1);
  const std::int64_t most = divides ? std::min(steps, kMaxBlocks / shape.tiles()) : 1;
  if (plan.parts < 1 || plan.parts > most) {
    return core::status(StatusCode::invalid_argument, "plan.parts is %lld; accepted for this term: 1 to %lld",
                        static_cast<long long>(plan.parts), static_cast<long long>(most));
  }
  if (plan.workspace_bytes != workspace_bytes(plan)) {
    return core::status(StatusCode::invalid_argument, "plan.workspace_bytes is %zu; accepted for its parts: %zu",
                        plan.workspace_bytes, workspace_bytes(plan));
  }
  return {};
}

}  // namespace rtopk::cuda
