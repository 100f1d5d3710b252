// Whether a product of compact rows makes sense.
#pragma once

#include <rtopk/product.hpp>

namespace rtopk::core {

Status check_problem(const Product& problem) noexcept;
Status check_call(const ProductPlan& plan, const ProductCall& call) noexcept;

}  // namespace rtopk::core
