// Kernels of the product operators.
#include "product.hpp"

#include <string>

#include <torch/csrc/stable/ops.h>

#include <rtopk/gnn/product.hpp>

#include "execution.hpp"
#include "tensor_checks.hpp"

namespace rtopk::torch_binding {
namespace {

/// Checks for a float32 matrix with this many rows, on the device of `selectors`.
void check_matrix(const char* name, const Tensor& matrix, std::int64_t rows, const char* why, const Tensor& selectors) {
  check_floats(name, matrix, 2, selectors, "selectors");
  check_size(name, matrix, 0, rows, why);
}

}  // namespace

void add_product(Tensor onto, const Tensor& values, const Tensor& selectors, const Tensor& matrix) {
  check_dims("selectors", selectors, 2);
  const std::int64_t rows = selectors.size(0);
  check_matrix("onto", onto, rows, "the rows of selectors", selectors);
  check_matrix("values", values, rows, "the rows of selectors", selectors);
  check_size("values", values, 1, selectors.size(1), "the columns of selectors");
  check_dims("matrix", matrix, 2);
  check_matrix("matrix", matrix, matrix.size(0), "", selectors);
  check_size("matrix", matrix, 1, onto.size(1), "the columns of onto");
  if (!onto.is_contiguous()) refuse("onto is not contiguous; accepted: a contiguous tensor");
  const gnn::Product problem{.term = gnn::ProductTerm::product,
                             .rows = rows,
                             .cols = matrix.size(0),
                             .k = selectors.size(1),
                             .width = matrix.size(1),
                             .selector_type = selector_type_of(selectors, matrix.size(0)),
                             .device = device_of(selectors)};
  if (problem.k == 0 || problem.width == 0) return;
  const Tensor held_values = contiguous_of(values);
  const Tensor held_selectors = contiguous_of(selectors);
  const Tensor held_matrix = contiguous_of(matrix);
  execute<gnn::ProductPlan>(problem,
                            gnn::ProductCall{.values = floats(held_values),
                                             .selectors = held_selectors.const_data_ptr(),
                                             .matrix = floats(held_matrix),
                                             .result = mutable_floats(onto)},
                            onto);
}

Tensor product_values_gradient(const Tensor& grad, const Tensor& selectors, const Tensor& matrix) {
  check_dims("selectors", selectors, 2);
  check_matrix("grad", grad, selectors.size(0), "the rows of selectors", selectors);
  check_dims("matrix", matrix, 2);
  check_matrix("matrix", matrix, matrix.size(0), "", selectors);
  check_size("matrix", matrix, 1, grad.size(1), "the columns of grad");
  const gnn::Product problem{.term = gnn::ProductTerm::values_gradient,
                             .rows = selectors.size(0),
                             .cols = matrix.size(0),
                             .k = selectors.size(1),
                             .width = matrix.size(1),
                             .selector_type = selector_type_of(selectors, matrix.size(0)),
                             .device = device_of(selectors)};
  Tensor result = empty_matrix(problem.rows, problem.k, grad);
  if (problem.k == 0 || problem.width == 0) return torch::stable::zero_(result);
  const Tensor held_grad = contiguous_of(grad);
  const Tensor held_selectors = contiguous_of(selectors);
  const Tensor held_matrix = contiguous_of(matrix);
  execute<gnn::ProductPlan>(problem,
                            gnn::ProductCall{.selectors = held_selectors.const_data_ptr(),
                                             .matrix = floats(held_matrix),
                                             .gradient = floats(held_grad),
                                             .result = mutable_floats(result)},
                            result);
  return result;
}

Tensor product_matrix_gradient(const Tensor& grad, const Tensor& values, const Tensor& selectors, std::int64_t cols) {
  check_dims("selectors", selectors, 2);
  const std::int64_t rows = selectors.size(0);
  check_matrix("grad", grad, rows, "the rows of selectors", selectors);
  check_matrix("values", values, rows, "the rows of selectors", selectors);
  check_size("values", values, 1, selectors.size(1), "the columns of selectors");
  const gnn::Product problem{.term = gnn::ProductTerm::matrix_gradient,
                             .rows = rows,
                             .cols = cols,
                             .k = selectors.size(1),
                             .width = grad.size(1),
                             .selector_type = selector_type_of(selectors, cols),
                             .device = device_of(selectors)};
  Tensor result = empty_matrix(cols, problem.width, grad);
  if (problem.k == 0 || problem.width == 0) return torch::stable::zero_(result);
  const Tensor held_grad = contiguous_of(grad);
  const Tensor held_values = contiguous_of(values);
  const Tensor held_selectors = contiguous_of(selectors);
  execute<gnn::ProductPlan>(problem,
                            gnn::ProductCall{.values = floats(held_values),
                                             .selectors = held_selectors.const_data_ptr(),
                                             .gradient = floats(held_grad),
                                             .result = mutable_floats(result)},
                            result);
  return result;
}

}  // namespace rtopk::torch_binding
