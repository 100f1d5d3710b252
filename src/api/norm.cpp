// The way in for normalizations of rows: checks a call, then hands it to CUDA, the one backend that has them.
#include <rtopk/norm.hpp>

#include "core/checks.hpp"
#include "core/norm_checks.hpp"
#if defined(RTOPK_HAVE_CUDA)
#include "cuda/backend.hpp"
#endif

namespace rtopk {

#if !defined(RTOPK_HAVE_CUDA)
namespace {
/// What a build without the CUDA backend answers.
namespace cuda {

Status refuse() {
  return {
      StatusCode::not_supported,
      "device is cuda, and this build has no CUDA backend, which alone normalizes rows; accepted: a build that has it"};
}
Status make_plan(const Norm&, const Traits&, NormPlan&) { return refuse(); }
Status check_plan(const NormPlan&) { return refuse(); }
Status run(const NormPlan&, const NormCall&, void*, void*) { return refuse(); }

}  // namespace cuda
}  // namespace
#endif

Status make_plan(const Norm& problem, const Traits& traits, NormPlan& plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  if (!(traits.device == problem.device)) {
    return {StatusCode::invalid_argument, "traits.device differs from problem.device; accepted: traits of that device"};
  }
  return cuda::make_plan(problem, traits, plan);
}

Status make_plan(const Norm& problem, NormPlan& plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  Traits traits;
  if (Status status = query_traits(problem.device, traits); !status.ok()) return status;
  return make_plan(problem, traits, plan);
}

Status run(const NormPlan& plan, const NormCall& call, Workspace workspace, const Launch& launch) noexcept {
  if (Status status = core::check_problem(plan.problem); !status.ok()) return status;
  if (Status status = cuda::check_plan(plan); !status.ok()) return status;
  if (Status status = core::check_launch(launch); !status.ok()) return status;
  if (Status status = core::check_call(plan, call, workspace); !status.ok()) return status;
  return cuda::run(plan, call, workspace.data, launch.stream);
}

}  // namespace rtopk
