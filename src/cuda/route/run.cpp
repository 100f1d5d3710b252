// Executes a checked plan and call of expert routing: fills the kernel arguments and launches on a stream.
#include <cuda_runtime_api.h>

#include <bit>

#include "core/sizes.hpp"
#include "cuda/backend.hpp"
#include "cuda/route/launch.hpp"
#include "cuda/runtime/device_guard.hpp"
#include "cuda/runtime/errors.hpp"
#include "plan/tuning_route.hpp"

namespace rtopk::cuda {
namespace {

bool is_aligned(const void* address, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

/// True if registers can be tried: every row can be loaded by vectors, and each group belongs to lanes of its own.
bool is_fast(const moe::Route& p, const moe::RouteCall& call) {
  const std::int64_t per_part = route_experts_per_part(p.score, route_experts_per_lane(p.experts));
  const std::int64_t per_load = route_experts_per_load(size_of(p.dtype), per_part);
  if (p.experts % per_load != 0) return false;
  if (!is_aligned(call.logits, static_cast<std::size_t>(per_load) * size_of(p.dtype))) return false;
  if (p.groups == 1) return true;
  const std::int64_t size = p.experts / p.groups;
  return size % per_part == 0 && size / per_part <= 32 &&
         std::has_single_bit(static_cast<std::uint64_t>(size / per_part));
}

/// True if a lane that has a row of its own can load four logits at once; of many experts, if copies of 16 bytes can,
/// for eight lanes of a row, too.
bool lanes_are_fast(const moe::Route& p, const moe::RouteCall& call) {
  if (p.experts > kMaxFewExperts) return is_aligned(call.logits, 16);
  return p.experts % 4 == 0 && is_aligned(call.logits, 4 * size_of(p.dtype));
}

RouteStep step_of(const moe::Route& p, std::int64_t rows) {
  return {rows, rows * p.experts * static_cast<std::int64_t>(size_of(p.dtype))};
}

/// The lanes of a group in registers, as a power of two.
std::int32_t log2_group_lanes(const moe::Route& p) {
  const std::int64_t per_part = route_experts_per_part(p.score, route_experts_per_lane(p.experts));
  return std::countr_zero(static_cast<std::uint64_t>(p.experts / p.groups / per_part));
}

}  // namespace

Status run(const moe::RoutePlan& plan, const moe::RouteCall& call, void*, void* stream) noexcept {
  const moe::Route& problem = plan.problem;
  const DeviceGuard device(problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  RouteArguments arguments{
      .call = call,
      .rows = problem.rows,
      .experts = static_cast<std::int32_t>(problem.experts),
      .k = static_cast<std::int32_t>(problem.k),
      .groups = static_cast<std::int32_t>(problem.groups),
      .group_k = static_cast<std::int32_t>(problem.group_k),
      .log2_group_lanes = log2_group_lanes(problem),
      .rows_at_once = static_cast<std::int32_t>(plan.rows_per_worker),
      .log2_row_lanes = 5 - std::countr_zero(static_cast<std::uint64_t>(plan.rows_per_worker)),
      .next_row = step_of(problem, 1),
      .next_turn = step_of(problem, (plan.blocks * kRouteWarps - 1) * plan.rows_per_worker + 1),
      .lane_group_parts = static_cast<std::int32_t>(core::ceil_div(problem.experts / problem.groups, kLanePart)),
      .scale = problem.scale,
      .score = problem.score,
      .renormalize = problem.renormalize,
      .fast = plan.rows_per_worker >= kFewRowsOfOctets ? lanes_are_fast(problem, call) : is_fast(problem, call)};
  if (!problem.biased) arguments.call.bias = nullptr;
  const Grid grid{plan.blocks, plan.threads, plan.shared_bytes, problem.device.ordinal,
                  static_cast<cudaStream_t>(stream)};
  return launched(launch_route(plan, arguments, grid));
}

}  // namespace rtopk::cuda
