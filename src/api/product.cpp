// The way in for products of compact rows: checks a call, then hands it to the backend of its device.
#include <rtopk/product.hpp>

#include "core/checks.hpp"
#include "core/product_checks.hpp"
#include "cpu/product.hpp"
#if defined(RTOPK_HAVE_CUDA)
#include "cuda/backend.hpp"
#endif

namespace rtopk {

#if !defined(RTOPK_HAVE_CUDA)
namespace {
/// What a build without the CUDA backend answers.
namespace cuda {

Status refuse() {
  return {StatusCode::not_supported, "device is cuda, and this build has no CUDA backend; accepted: cpu"};
}
Status make_plan(const Product&, const Traits&, ProductPlan&) { return refuse(); }
Status check_plan(const ProductPlan&) { return refuse(); }
Status run(const ProductPlan&, const ProductCall&, void*, void*) { return refuse(); }

}  // namespace cuda
}  // namespace
#endif

Status make_plan(const Product& problem, const Traits& traits, ProductPlan& plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  if (!(traits.device == problem.device)) {
    return {StatusCode::invalid_argument, "traits.device differs from problem.device; accepted: traits of that device"};
  }
  if (problem.device.kind == DeviceKind::cuda) return cuda::make_plan(problem, traits, plan);
  cpu::make_plan(problem, traits, plan);
  return {};
}

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

}  // namespace rtopk
