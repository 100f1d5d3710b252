// Argument checks of products with CBSR rows, made before anything runs.
#pragma once

#include <rtopk/gnn/product.hpp>

namespace rtopk::core {

Status check_problem(const gnn::Product& problem) noexcept;
Status check_call(const gnn::ProductPlan& plan, const gnn::ProductCall& call, Workspace workspace) noexcept;

/// True if the result has no elements.
[[nodiscard]] constexpr bool is_empty(const gnn::Product& problem) noexcept {
  return problem.term != gnn::ProductTerm::matrix_gradient && problem.rows == 0;
}

}  // namespace rtopk::core
