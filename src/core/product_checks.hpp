// Whether a product of compact rows makes sense.
#pragma once

#include <rtopk/product.hpp>

namespace rtopk::core {

Status check_problem(const Product& problem) noexcept;
Status check_call(const ProductPlan& plan, const ProductCall& call, Workspace workspace) noexcept;

/// Whether the result has no element, so that there is nothing to do.
[[nodiscard]] constexpr bool is_empty(const Product& problem) noexcept {
  return problem.term != ProductTerm::matrix_gradient && problem.rows == 0;
}

}  // namespace rtopk::core
