// The way in for linear maps of dense rows: checks a call, then hands it to CUDA, the one backend that has them.
#include <rtopk/linear.hpp>

#include "core/checks.hpp"
#include "core/linear_checks.hpp"
#include "cuda_backend.hpp"
#include "plan_here.hpp"

namespace rtopk {

Status make_plan(const Linear& problem, const Traits& traits, LinearPlan& plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  if (Status status = core::check_traits(traits, problem.device); !status.ok()) return status;
  return cuda::make_plan(problem, traits, plan);
}

Status make_plan(const Linear& problem, LinearPlan& plan) noexcept { return plan_here(problem, plan); }

Status run(const LinearPlan& plan, const LinearCall& call, Workspace workspace, const Launch& launch) noexcept {
  if (Status status = core::check_problem(plan.problem); !status.ok()) return status;
  if (Status status = cuda::check_plan(plan); !status.ok()) return status;
  if (Status status = core::check_launch(launch); !status.ok()) return status;
  if (Status status = core::check_call(plan, call, workspace); !status.ok()) return status;
  return cuda::run(plan, call, workspace.data, launch.stream);
}

}  // namespace rtopk
