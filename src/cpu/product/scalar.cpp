// Scalar product kernels, for CPUs and builds without SIMD.
#include <algorithm>

#include "cpu/product/product.hpp"

namespace rtopk::cpu {
namespace {

template <class Selector>
void multiply_with(const gnn::Product& p, const gnn::ProductCall& call, const ProductPart& part) {
  const auto* selectors = static_cast<const Selector*>(call.selectors);
  if (p.term == gnn::ProductTerm::matrix_gradient) {
    for (std::int64_t column = 0; column < p.cols; ++column) {
      std::fill(call.result + column * p.width + part.first_col, call.result + column * p.width + part.last_col, 0.0f);
    }
  }
  for (std::int64_t row = part.first_row; row < part.last_row; ++row) {
    for (std::int64_t i = row * p.k; i < (row + 1) * p.k; ++i) {
      if (p.term == gnn::ProductTerm::values_gradient) call.result[i] = 0.0f;
      const std::int64_t column = selectors[i];
      if (column >= p.cols) continue;
      for (std::int64_t col = part.first_col; col < part.last_col; ++col) {
        const std::int64_t of_row = row * p.width + col;
        const std::int64_t of_matrix = column * p.width + col;
        switch (p.term) {
          case gnn::ProductTerm::product: call.result[of_row] += call.values[i] * call.matrix[of_matrix]; break;
          case gnn::ProductTerm::values_gradient:
            call.result[i] += call.gradient[of_row] * call.matrix[of_matrix];
            break;
          case gnn::ProductTerm::matrix_gradient:
            call.result[of_matrix] += call.values[i] * call.gradient[of_row];
            break;
        }
      }
    }
  }
}

}  // namespace

void multiply_scalar(const gnn::Product& problem, const gnn::ProductCall& call, const ProductPart& part) noexcept {
  if (problem.selector_type == IndexType::u8) return multiply_with<std::uint8_t>(problem, call, part);
  multiply_with<std::uint16_t>(problem, call, part);
}

}  // namespace rtopk::cpu
