// API of dense linear layers.
#include "internal/linear.hpp"

#include "api/gnn/gpu_only.hpp"

namespace rtopk::gnn {

Status make_plan(const Linear& problem, const Traits& traits, LinearPlan& plan) noexcept {
  return plan_on_gpu(problem, traits, plan);
}

Status make_plan(const Linear& problem, LinearPlan& plan) noexcept { return plan_here(problem, plan); }

Status run(const LinearPlan& plan, const LinearCall& call, Workspace workspace, const Launch& launch) noexcept {
  return run_on_gpu(plan, call, workspace, launch);
}

}  // namespace rtopk::gnn
