// Picks the config of expert routing on a GPU. Host code only.
#include <algorithm>

#include "core/checks.hpp"
#include "plan/cuda.hpp"
#include "plan/derived_plan.hpp"
#include "plan/tuning_route.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 20;

/// Sets the fields that follow from the problem.
void derive(moe::RoutePlan& plan) {
  plan.threads = kRouteThreads;
  plan.shared_bytes =
      static_cast<std::size_t>(kRouteWarps * route_words_per_warp(plan.problem)) * sizeof(std::uint32_t);
  plan.workspace_bytes = 0;
}

}  // namespace

Status make_plan(const moe::Route& problem, const Traits& traits, moe::RoutePlan& plan) noexcept {
  if (traits.multiprocessors < 1 || traits.compute_capability < 80) {
    return core::status(
        StatusCode::not_supported,
        "traits have compute_capability %d and %d multiprocessors; accepted for expert routing: 80 or more, 1 or more",
        traits.compute_capability, traits.multiprocessors);
  }
  moe::RoutePlan made{.problem = problem};
  const std::int64_t most =
      std::int64_t{traits.multiprocessors} * route_blocks(route_experts_per_lane(problem.experts));
  // Two rows at once take fewer instructions, but the second waits for the first: only where there are rows for all warps.
  const bool pairs = problem.k <= kMaxPairedRoutes && problem.rows >= most * kRouteWarps * 2;
  made.rows_per_worker = pairs ? 2 : 1;
  made.blocks = std::max<std::int64_t>(1, std::min(most, problem.rows / kRouteWarps + 1));
  derive(made);
  plan = made;
  return {};
}

Status check_plan(const moe::RoutePlan& plan) noexcept {
  if (plan.blocks < 1 || plan.blocks > kMaxBlocks) return core::invalid("plan.blocks", plan.blocks, "1 to 2^20");
  if (plan.rows_per_worker != 1 && (plan.rows_per_worker != 2 || plan.problem.k > kMaxPairedRoutes)) {
    return core::invalid("plan.rows_per_worker", plan.rows_per_worker, "1, or 2 if k is at most 16");
  }
  moe::RoutePlan derived = plan;
  derive(derived);
  return check_derived(plan, derived);
}

}  // namespace rtopk::cuda
