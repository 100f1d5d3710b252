// API of operations that only GPUs have: checks a call, then passes it to the CUDA backend.
#pragma once

#include "api/cuda_backend.hpp"
#include "api/plan_here.hpp"
#include "core/checks.hpp"

namespace rtopk::gnn {

template <class Problem, class Plan>
Status plan_on_gpu(const Problem& problem, const Traits& traits, Plan& plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  if (Status status = core::check_traits(traits, problem.device); !status.ok()) return status;
  return cuda::make_plan(problem, traits, plan);
}

template <class Plan, class Call>
Status run_on_gpu(const Plan& plan, const Call& call, Workspace workspace, const Launch& launch) noexcept {
  if (Status status = core::check_problem(plan.problem); !status.ok()) return status;
  if (Status status = cuda::check_plan(plan); !status.ok()) return status;
  if (Status status = core::check_launch(launch); !status.ok()) return status;
  if (Status status = core::check_call(plan, call, workspace); !status.ok()) return status;
  return cuda::run(plan, call, workspace.data, launch.stream);
}

}  // namespace rtopk::gnn
