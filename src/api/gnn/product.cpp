// API of products with CBSR rows: checks a call, then passes it to the backend of its device.
#include <rtopk/gnn/product.hpp>

#include "api/cuda_backend.hpp"
#include "api/plan_here.hpp"
#include "core/checks.hpp"
#include "core/gnn/product_checks.hpp"
#include "cpu/product/product.hpp"

namespace rtopk::gnn {

Status make_plan(const Product& problem, const Traits& traits, ProductPlan& plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  if (Status status = core::check_traits(traits, problem.device); !status.ok()) return status;
  if (problem.device.kind == DeviceKind::cuda) return cuda::make_plan(problem, traits, plan);
  cpu::make_plan(problem, traits, plan);
  return {};
}

Status make_plan(const Product& problem, ProductPlan& plan) noexcept { return plan_here(problem, plan); }

Status run(const ProductPlan& plan, const ProductCall& call, Workspace workspace, const Launch& launch) noexcept {
  if (Status status = core::check_problem(plan.problem); !status.ok()) return status;
  const bool on_cuda = plan.problem.device.kind == DeviceKind::cuda;
  if (Status status = on_cuda ? cuda::check_plan(plan) : cpu::check_plan(plan); !status.ok()) return status;
  if (Status status = core::check_launch(launch); !status.ok()) return status;
  if (core::is_empty(plan.problem)) return {};
  if (Status status = core::check_call(plan, call, workspace); !status.ok()) return status;
  if (on_cuda) return cuda::run(plan, call, workspace.data, launch.stream);
  cpu::run(plan, call, launch.executor);
  return {};
}

}  // namespace rtopk::gnn
