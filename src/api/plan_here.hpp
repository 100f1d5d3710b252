// Planning with the traits of this machine. Includes the checks of all problems, because the template below must see
// every overload of check_problem.
#pragma once

#include "core/checks.hpp"
#include "core/gnn/aggregate_checks.hpp"
#include "core/gnn/linear_checks.hpp"
#include "core/gnn/norm_checks.hpp"
#include "core/gnn/product_checks.hpp"
#include "core/moe/route_checks.hpp"

namespace rtopk {

/// make_plan with the traits of the problem's device. Checks the problem first, so that its errors come before those of
/// the device. `wanted_and_plan` are the requested family, if any, and the plan.
template <class Problem, class... WantedAndPlan>
Status plan_here(const Problem& problem, WantedAndPlan&... wanted_and_plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  Traits traits;
  if (Status status = query_traits(problem.device, traits); !status.ok()) return status;
  return make_plan(problem, traits, wanted_and_plan...);
}

}  // namespace rtopk
