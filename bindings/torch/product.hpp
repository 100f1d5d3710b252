// Operators for products of CBSR rows with a [cols, width] matrix, in float32.
#pragma once

#include "rows.hpp"

namespace rtopk::torch_binding {

/// onto += rows @ matrix. `onto` must be contiguous.
void add_product(Tensor onto, const Tensor& values, const Tensor& selectors, const Tensor& matrix);

/// (grad @ matrix.T) at the selectors.
Tensor product_values_gradient(const Tensor& grad, const Tensor& selectors, const Tensor& matrix);

/// rows.T @ grad, for rows of `cols` columns.
Tensor product_matrix_gradient(const Tensor& grad, const Tensor& values, const Tensor& selectors, std::int64_t cols);

}  // namespace rtopk::torch_binding
