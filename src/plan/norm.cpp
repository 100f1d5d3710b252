// Picks the config of a normalization. Host code only.
#include <algorithm>

#include "core/checks.hpp"
#include "plan/cuda.hpp"
#include "plan/derived_plan.hpp"
#include "plan/tuning_norm.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 20;

/// Sets the fields that follow from the problem and from the fields that were picked.
void derive(gnn::NormPlan& plan) {
  plan.threads = kNormThreads;
  plan.shared_bytes = norm_shared_bytes(plan.problem);
  plan.workspace_bytes = 0;
  if (plan.problem.term == gnn::NormTerm::rows) return;
  // Includes room to align a base of any address.
  plan.workspace_bytes = static_cast<std::size_t>(plan.blocks * kNormSums * plan.problem.cols) * sizeof(float) + 255;
}

}  // namespace

Status make_plan(const gnn::Norm& problem, const Traits& traits, gnn::NormPlan& plan) noexcept {
  if (traits.multiprocessors < 1 || traits.compute_capability < 80) {
    return core::status(
        StatusCode::not_supported,
        "traits have compute_capability %d and %d multiprocessors; accepted for a normalization: 80 or more, "
        "1 or more",
        traits.compute_capability, traits.multiprocessors);
  }
  constexpr std::int64_t kWarps = kNormThreads / 32;
  const std::int64_t elements = norm_elements_per_lane(problem.cols);
  const std::int64_t most =
      problem.term == gnn::NormTerm::rows ? norm_blocks_for_rows(elements) : norm_blocks_for_gradients(elements);
  gnn::NormPlan made{.problem = problem};
  made.blocks =
      std::max<std::int64_t>(1, std::min(most * traits.multiprocessors, (problem.rows + kWarps - 1) / kWarps));
  derive(made);
  plan = made;
  return {};
}

Status check_plan(const gnn::NormPlan& plan) noexcept {
  if (plan.blocks < 1 || plan.blocks > kMaxBlocks) {
    return core::invalid("plan.blocks", plan.blocks, "1 to 2^20");
  }
  gnn::NormPlan derived = plan;
  derive(derived);
  return check_derived(plan, derived);
}

}  // namespace rtopk::cuda
