// Whether a product of compact rows makes sense.
#pragma once

#include <rtopk/gnn/product.hpp>

namespace rtopk::core {

Status check_problem(const gnn::Product& problem) noexcept;
Status check_call(const gnn::ProductPlan& plan, const gnn::ProductCall& call, Workspace workspace) noexcept;

/// Whether the result has no element, so that there is nothing to do.
[[nodiscard]] constexpr bool is_empty(const gnn::Product& problem) noexcept {
  return problem.term != gnn::ProductTerm::matrix_gradient && problem.rows == 0;
}

}  // namespace rtopk::core
