// Interface of products with CBSR rows on the CPU.
#pragma once

#include <rtopk/gnn/product.hpp>

namespace rtopk::cpu {

void make_plan(const gnn::Product& problem, const Traits& traits, gnn::ProductPlan& plan) noexcept;
Status check_plan(const gnn::ProductPlan& plan) noexcept;
void run(const gnn::ProductPlan& plan, const gnn::ProductCall& call, const Executor* executor) noexcept;

/// A part of a product: ranges of rows and of columns of W.
struct ProductPart {
  std::int64_t first_row;
  std::int64_t last_row;
  std::int64_t first_col;
  std::int64_t last_col;
};

/// The kernels for the best instruction set of this machine.
void multiply(const gnn::Product& problem, const gnn::ProductCall& call, const ProductPart& part) noexcept;
void multiply_scalar(const gnn::Product& problem, const gnn::ProductCall& call, const ProductPart& part) noexcept;

}  // namespace rtopk::cpu
