// Plans for the GPUs of this machine.
#include "gpu_plans.hpp"

#include "common/gpu_traits.hpp"

namespace rtopk::jax_binding {

Status plan_for_gpu(std::int32_t ordinal, Problem problem, Plan& plan) {
  problem.device = {DeviceKind::cuda, ordinal};
  Traits traits;
  if (const Status status = bindings::traits_of_gpu(ordinal, traits); !status.ok()) return status;
  return make_plan(problem, traits, plan);
}

}  // namespace rtopk::jax_binding
