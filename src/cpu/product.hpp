// Products of compact rows on the CPU, as the rest of the library sees them.
#pragma once

#include <rtopk/product.hpp>

namespace rtopk::cpu {

void make_plan(const Product& problem, const Traits& traits, ProductPlan& plan) noexcept;
Status check_plan(const ProductPlan& plan) noexcept;
void run(const ProductPlan& plan, const ProductCall& call, const Executor* executor) noexcept;

/// Part of a product: rows and columns of W from begin to end.
struct ProductPart {
  std::int64_t first_row;
  std::int64_t last_row;
  std::int64_t first_col;
  std::int64_t last_col;
};

/// The kernels, in the best instruction set of this machine.
void multiply(const Product& problem, const ProductCall& call, const ProductPart& part) noexcept;
void multiply_scalar(const Product& problem, const ProductCall& call, const ProductPart& part) noexcept;

}  // namespace rtopk::cpu
