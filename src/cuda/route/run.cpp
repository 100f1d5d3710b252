// Executes a checked plan and call of expert routing: fills the kernel arguments and launches on a stream.
#include <cuda_runtime_api.h>

#include <bit>

#include "cuda/backend.hpp"
#include "cuda/route/launch.hpp"
#include "cuda/runtime/device_guard.hpp"
#include "cuda/runtime/errors.hpp"

namespace rtopk::cuda {
namespace {

bool is_aligned(const void* address, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

/// True if registers can be tried: four neighbours of every row can be loaded at once, enough lanes have experts for a
/// threshold of rank k, and each group belongs to lanes of its own, no fewer than there are groups.
bool is_fast(const moe::Route& p, const moe::RouteCall& call) {
  if (p.experts % 4 != 0 || !is_aligned(call.logits, 4 * size_of(p.dtype))) return false;
  if (p.biased && !is_aligned(call.bias, 4 * sizeof(float))) return false;
  if (p.experts > 32 && p.k > p.experts / 4) return false;
  if (p.groups == 1) return true;
  const auto size = static_cast<std::uint64_t>(p.experts / p.groups);
  return std::has_single_bit(size) && size >= 4 && size <= 128 && p.groups <= static_cast<std::int64_t>(size) / 4;
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
      .log2_group_lanes = std::countr_zero(static_cast<std::uint64_t>(problem.experts / problem.groups)) - 2,
      .scale = problem.scale,
      .score = problem.score,
      .renormalize = problem.renormalize,
      .fast = is_fast(problem, call)};
  if (!problem.biased) arguments.call.bias = nullptr;
  const Grid grid{plan.blocks, plan.threads, plan.shared_bytes, problem.device.ordinal,
                  static_cast<cudaStream_t>(stream)};
  return launched(launch_route(plan, arguments, grid));
}

}  // namespace rtopk::cuda
