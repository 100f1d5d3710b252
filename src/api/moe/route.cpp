// API of expert routing: checks a call, then passes it to the backend of its device.
#include <rtopk/moe/route.hpp>

#include "api/cuda_backend.hpp"
#include "api/plan_here.hpp"
#include "core/checks.hpp"
#include "core/moe/route_checks.hpp"
#include "cpu/route/route.hpp"

namespace rtopk::moe {

Status make_plan(const Route& problem, const Traits& traits, RoutePlan& plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  if (Status status = core::check_traits(traits, problem.device); !status.ok()) return status;
  if (problem.device.kind == DeviceKind::cuda) return cuda::make_plan(problem, traits, plan);
  cpu::make_plan(problem, traits, plan);
  return {};
}

Status make_plan(const Route& problem, RoutePlan& plan) noexcept { return plan_here(problem, plan); }

Status run(const RoutePlan& plan, const RouteCall& call, Workspace workspace, const Launch& launch) noexcept {
  if (Status status = core::check_problem(plan.problem); !status.ok()) return status;
  const bool on_cuda = plan.problem.device.kind == DeviceKind::cuda;
  if (Status status = on_cuda ? cuda::check_plan(plan) : cpu::check_plan(plan); !status.ok()) return status;
  if (Status status = core::check_launch(launch); !status.ok()) return status;
  if (plan.problem.rows == 0) return {};
  if (Status status = core::check_call(plan, call, workspace); !status.ok()) return status;
  if (on_cuda) return cuda::run(plan, call, workspace.data, launch.stream);
  cpu::run(plan, call, launch.executor);
  return {};
}

}  // namespace rtopk::moe
