// API of row normalizations.
#include <rtopk/gnn/norm.hpp>

#include "api/gnn/gpu_only.hpp"

namespace rtopk::gnn {

Status make_plan(const Norm& problem, const Traits& traits, NormPlan& plan) noexcept {
  return plan_on_gpu(problem, traits, plan);
}

Status make_plan(const Norm& problem, NormPlan& plan) noexcept { return plan_here(problem, plan); }

Status run(const NormPlan& plan, const NormCall& call, Workspace workspace, const Launch& launch) noexcept {
  return run_on_gpu(plan, call, workspace, launch);
}

}  // namespace rtopk::gnn
