// The way in for products of compact rows: checks a call, then hands it to the CPU, the one backend that has them.
#include <rtopk/product.hpp>

#include "core/checks.hpp"
#include "core/product_checks.hpp"
#include "cpu/product.hpp"

namespace rtopk {

Status make_plan(const Product& problem, const Traits& traits, ProductPlan& plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  if (!(traits.device == problem.device)) {
    return {StatusCode::invalid_argument, "traits.device differs from problem.device; accepted: traits of that device"};
  }
  cpu::make_plan(problem, traits, plan);
  return {};
}

Status run(const ProductPlan& plan, const ProductCall& call, const Launch& launch) noexcept {
  if (Status status = core::check_problem(plan.problem); !status.ok()) return status;
  if (Status status = cpu::check_plan(plan); !status.ok()) return status;
  if (Status status = core::check_launch(launch); !status.ok()) return status;
  if (Status status = core::check_call(plan, call); !status.ok()) return status;
  cpu::run(plan, call, launch.executor);
  return {};
}

}  // namespace rtopk
