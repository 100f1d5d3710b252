// API of aggregations: checks a call, then passes it to the backend of its device.
#include <rtopk/gnn/aggregate.hpp>

#include "api/cuda_backend.hpp"
#include "api/plan_here.hpp"
#include "core/checks.hpp"
#include "core/gnn/aggregate_checks.hpp"
#include "cpu/aggregate/aggregate.hpp"

namespace rtopk::gnn {

Status make_plan(const Aggregation& problem, const Traits& traits, AggregationPlan& plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  if (Status status = core::check_traits(traits, problem.device); !status.ok()) return status;
  if (problem.device.kind == DeviceKind::cuda) return cuda::make_plan(problem, plan);
  return cpu::make_plan(problem, traits, plan);
}

Status make_plan(const Aggregation& problem, AggregationPlan& plan) noexcept { return plan_here(problem, plan); }

Status run(const AggregationPlan& plan, const AggregationCall& call, Workspace workspace,
           const Launch& launch) noexcept {
  if (Status status = core::check_problem(plan.problem); !status.ok()) return status;
  const bool on_cuda = plan.problem.device.kind == DeviceKind::cuda;
  if (Status status = on_cuda ? cuda::check_plan(plan) : cpu::check_plan(plan); !status.ok()) return status;
  if (Status status = core::check_launch(launch); !status.ok()) return status;
  if (core::is_empty(plan.problem)) return {};
  if (Status status = core::check_call(plan, call, workspace); !status.ok()) return status;
  if (on_cuda) return cuda::run(plan, call, workspace.data, launch.stream);
  cpu::run(plan, call, workspace.data, launch.executor);
  return {};
}

Status make_plan(const Transposition& problem, TranspositionPlan& plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  if (problem.device.kind == DeviceKind::cuda) return cuda::make_plan(problem, plan);
  plan = {.problem = problem};
  return {};
}

Status run(const TranspositionPlan& plan, const Graph& graph, const TransposedGraph& transposed, Workspace workspace,
           const Launch& launch) noexcept {
  if (Status status = core::check_problem(plan.problem); !status.ok()) return status;
  const bool on_cuda = plan.problem.device.kind == DeviceKind::cuda;
  if (Status status = core::check_call(plan, graph, transposed, workspace); !status.ok()) return status;
  if (on_cuda) return cuda::run(plan, graph, transposed, workspace.data, launch.stream);
  cpu::run(plan, graph, transposed);
  return {};
}

}  // namespace rtopk::gnn
