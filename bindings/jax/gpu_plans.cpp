// Plans for the GPUs of this machine.
#include "gpu_plans.hpp"

#include <array>
#include <cstddef>
#include <mutex>

namespace rtopk::jax_binding {
namespace {

/// Cached: querying the driver takes longer than a small selection, and the answer does not change.
Status traits_of_gpu(std::int32_t ordinal, Traits& traits) {
  struct Known {
    std::once_flag asked;
    Status status;
    Traits traits;
  };
  static std::array<Known, kMaxGpus> known;
  if (ordinal < 0 || ordinal >= kMaxGpus) {
    return {StatusCode::not_supported, "the GPU has a number beyond 63; accepted: 0 to 63"};
  }
  Known& gpu = known[static_cast<std::size_t>(ordinal)];
  std::call_once(gpu.asked, [&] { gpu.status = query_traits({DeviceKind::cuda, ordinal}, gpu.traits); });
  traits = gpu.traits;
  return gpu.status;
}

}  // namespace

Status plan_for_gpu(std::int32_t ordinal, Problem problem, Plan& plan) {
  problem.device = {DeviceKind::cuda, ordinal};
  Traits traits;
  if (const Status status = traits_of_gpu(ordinal, traits); !status.ok()) return status;
  return make_plan(problem, traits, plan);
}

}  // namespace rtopk::jax_binding
