// Plans for a problem's device as it is. The checks of all problems are included here: a template finds only those it has seen.
#pragma once

#include "core/checks.hpp"
#include "core/gnn/aggregate_checks.hpp"
#include "core/gnn/linear_checks.hpp"
#include "core/gnn/norm_checks.hpp"
#include "core/gnn/product_checks.hpp"

namespace rtopk {

/// make_plan with the traits of the device that the problem names. What is wrong with a problem is said before its device is
/// asked for.
/// `wanted_and_plan`: the family, if one is wanted, and the plan.
template <class Problem, class... WantedAndPlan>
Status plan_here(const Problem& problem, WantedAndPlan&... wanted_and_plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  Traits traits;
  if (Status status = query_traits(problem.device, traits); !status.ok()) return status;
  return make_plan(problem, traits, wanted_and_plan...);
}

}  // namespace rtopk
