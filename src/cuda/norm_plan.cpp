// With which numbers a normalization runs. Host code alone.
#include <algorithm>

#include "backend.hpp"
#include "core/checks.hpp"
#include "derived_plan.hpp"
#include "norm_shape.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;

/// Sets what follows from the problem and the numbers that were picked.
void derive(NormPlan& plan) {
  plan.threads = kNormThreads;
  plan.shared_bytes = norm_shared_bytes(plan.problem);
  plan.workspace_bytes = 0;
  if (plan.problem.term == NormTerm::rows) return;
  // With room to align a base of any address.
  plan.workspace_bytes = static_cast<std::size_t>(plan.blocks * kNormSums * plan.problem.cols) * sizeof(float) + 255;
}

}  // namespace

Status make_plan(const Norm& problem, const Traits& traits, NormPlan& plan) noexcept {
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
      problem.term == NormTerm::rows ? norm_blocks_for_rows(elements) : norm_blocks_for_gradients(elements);
  NormPlan made{.problem = problem};
  made.blocks =
      std::max<std::int64_t>(1, std::min(most * traits.multiprocessors, (problem.rows + kWarps - 1) / kWarps));
  derive(made);
  plan = made;
  return {};
}

Status check_plan(const NormPlan& plan) noexcept {
  if (plan.blocks < 1 || plan.blocks > kMostBlocks) {
    return core::invalid("plan.blocks", plan.blocks, "1 to 2^20");
  }
  NormPlan derived = plan;
  derive(derived);
  return check_derived(plan, derived);
}

}  // namespace rtopk::cuda
