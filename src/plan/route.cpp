// Picks the config of expert routing on a GPU. Host code only.
#include <algorithm>
#include <bit>

#include "core/checks.hpp"
#include "core/sizes.hpp"
#include "plan/cuda.hpp"
#include "plan/derived_plan.hpp"
#include "plan/tuning_route.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 20;

[[nodiscard]] bool has_few_experts(const moe::Route& p) { return p.experts <= kMaxFewExperts && p.groups == 1; }

/// Rows that lanes take by way of shared memory: whole vectors of 16 bytes, groups of whole parts, and, for softmax,
/// the order of its logits.
[[nodiscard]] bool lanes_may_have_many_experts(const moe::Route& p) {
  const std::int64_t bytes = p.experts * static_cast<std::int64_t>(size_of(p.dtype));
  if (p.experts <= kMaxFewExperts || p.experts > kMaxLaneExperts || p.k > kMaxLaneRoutes || bytes % 16 != 0) {
    return false;
  }
  if (p.score == moe::Score::softmax) return p.experts <= kMaxLaneSoftmaxExperts && p.groups == 1 && !p.biased;
  return p.groups == 1 || (p.group_k <= kMaxLaneGroups && p.experts / p.groups % kLanePart == 0);
}

[[nodiscard]] bool lanes_may_have_rows(const moe::Route& p) {
  return has_few_experts(p) || lanes_may_have_many_experts(p);
}

/// Rows that have eight lanes each: whole parts for each of them, eight groups or none, and, for softmax, the order of
/// its logits.
[[nodiscard]] bool octets_may_have_rows(const moe::Route& p) {
  if (p.experts % (std::int64_t{kOctetLanes} * kOctetPart) != 0 || p.experts > kMaxLaneExperts || p.k > kOctetLanes)
    return false;
  if (p.groups == 1) return p.score != moe::Score::softmax || !p.biased;
  return p.groups == kOctetLanes && p.score != moe::Score::softmax &&
         std::has_single_bit(static_cast<std::uint64_t>(p.experts));
}

/// True if rows that have eight lanes each are faster. Without a bias logits of 16 bits tie too often.
[[nodiscard]] bool octets_have_rows(const moe::Route& p, const Traits& traits) {
  return octets_may_have_rows(p) && (p.biased || size_of(p.dtype) == 4) &&
         p.rows >= traits.multiprocessors * kMinLaneRowsPerMultiprocessor;
}

/// True if lanes that have a row each are faster. Of many experts they are with logits of 16 bits, but without a bias
/// these tie too often. With f32 a warp for each row was as fast, or a tenth faster.
[[nodiscard]] bool lanes_have_rows(const moe::Route& p, const Traits& traits) {
  if (has_few_experts(p)) return true;
  return lanes_may_have_many_experts(p) && p.biased && size_of(p.dtype) == 2 &&
         p.rows >= traits.multiprocessors * kMinLaneRowsPerMultiprocessor;
}

/// A power of two. Every row needs a lane for each route.
[[nodiscard]] std::int64_t max_rows_at_once(const moe::Route& p) {
  return std::min<std::int64_t>(kMaxRowsAtOnce,
                                32 / static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(p.k))));
}

/// Sets the fields that follow from the problem.
void derive(moe::RoutePlan& plan) {
  plan.threads = kRouteThreads;
  const bool of_lanes = plan.rows_per_worker == kRowsOfLanes && !has_few_experts(plan.problem);
  const bool of_octets = are_rows_of_octets(plan.rows_per_worker);
  plan.shared_bytes = static_cast<std::size_t>(of_lanes    ? lane_bytes_per_block(plan.problem)
                                               : of_octets ? octet_bytes_per_block(plan.problem)
                                                           : kRouteWarps * route_words_per_warp(plan.problem) *
                                                                 static_cast<std::int64_t>(sizeof(std::uint32_t)));
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
      std::int64_t{traits.multiprocessors} * route_blocks(problem.score, route_experts_per_lane(problem.experts));
  if (octets_have_rows(problem, traits)) {
    const std::int64_t rows_of_all =
        std::int64_t{traits.multiprocessors} * kOctetBlocks * kRouteWarps * kFewRowsOfOctets;
    made.rows_per_worker = problem.rows > rows_of_all ? kManyRowsOfOctets : kFewRowsOfOctets;
    // A block ends with these, and the next begins when it can: some rows are routed exactly, and take longer.
    made.blocks = std::min(kMaxBlocks, core::ceil_div(problem.rows, kRouteWarps * made.rows_per_worker));
  } else if (lanes_have_rows(problem, traits)) {
    made.rows_per_worker = kRowsOfLanes;
    // Those of few experts read all of their rows at once, and go on with others. Those of many have much to do with
    // one row, and end with it: the next block begins when it can.
    made.blocks = std::min(has_few_experts(problem) ? most : kMaxBlocks,
                           core::ceil_div(problem.rows, std::int64_t{kRouteThreads}));
  } else {
    // Several rows at once take fewer instructions, but each waits for those before: only where there are rows for all
    // warps.
    while (2 * made.rows_per_worker <= max_rows_at_once(problem) &&
           problem.rows >= most * kRouteWarps * 2 * made.rows_per_worker) {
      made.rows_per_worker *= 2;
    }
    // More than fit at a time, so that none has to wait for the last of many rows of another. Measured, microseconds,
    // 65536 tokens, once and four times as many as fit: DeepSeek-V3 51.9, 46.3; Kimi K2 60.9, 51.1; Qwen3 37.2, 35.0.
    constexpr std::int64_t kTurns = 4;
    made.blocks = std::min(kTurns * most, core::ceil_div(problem.rows, kRouteWarps * made.rows_per_worker));
  }
  made.blocks = std::max<std::int64_t>(1, made.blocks);
  derive(made);
  plan = made;
  return {};
}

Status check_plan(const moe::RoutePlan& plan) noexcept {
  if (plan.blocks < 1 || plan.blocks > kMaxBlocks) return core::invalid("plan.blocks", plan.blocks, "1 to 2^20");
  const bool shares_lanes = (plan.rows_per_worker == kRowsOfLanes && lanes_may_have_rows(plan.problem)) ||
                            (are_rows_of_octets(plan.rows_per_worker) && octets_may_have_rows(plan.problem));
  if (!shares_lanes && (plan.rows_per_worker < 1 || plan.rows_per_worker > max_rows_at_once(plan.problem) ||
                        !std::has_single_bit(static_cast<std::uint64_t>(plan.rows_per_worker)))) {
    return core::invalid(
        "plan.rows_per_worker", plan.rows_per_worker,
        "1, 2 if k is at most 16, 4 if k is at most 8, 8 or 16 for rows that eight lanes can take, or 32 for up to 16 "
        "experts in one group, and for rows that a lane can take by way of shared memory");
  }
  moe::RoutePlan derived = plan;
  derive(derived);
  return check_derived(plan, derived);
}

}  // namespace rtopk::cuda
