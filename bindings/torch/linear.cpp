// Kernels of the dense linear operators.
#include "linear.hpp"

#include <torch/csrc/stable/ops.h>

#include "internal/linear.hpp"

#include "execution.hpp"
#include "tensor_checks.hpp"

namespace rtopk::torch_binding {
namespace {

Tensor multiplied(const gnn::Linear& problem, gnn::LinearCall call, const Tensor& like) {
  const bool for_matrix = problem.term == gnn::LinearTerm::matrix_gradient;
  Tensor result = empty_matrix(for_matrix ? problem.outputs : problem.rows,
                               problem.term == gnn::LinearTerm::product ? problem.outputs : problem.inputs, like);
  call.result = mutable_floats(result);
  execute<gnn::LinearPlan>(problem, call, result);
  return result;
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const MaybeTensor& bias) {
  check_floats("x", x, 2, x, "x");
  check_floats("weight", weight, 2, x, "x");
  check_size("weight", weight, 1, x.size(1), "the columns of x");
  const Tensor held_x = contiguous_of(x);
  const Tensor held_weight = contiguous_of(weight);
  MaybeTensor held_bias;
  if (bias) {
    check_floats("bias", *bias, 1, x, "x");
    check_size("bias", *bias, 0, weight.size(0), "the rows of weight");
    held_bias = contiguous_of(*bias);
  }
  return multiplied(
      {.term = gnn::LinearTerm::product,
       .rows = x.size(0),
       .inputs = x.size(1),
       .outputs = weight.size(0),
       .biased = bias.has_value(),
       .device = device_of(x)},
      {.input = floats(held_x), .matrix = floats(held_weight), .bias = held_bias ? floats(*held_bias) : nullptr}, x);
}

Tensor linear_input_gradient(const Tensor& grad, const Tensor& weight) {
  check_floats("grad", grad, 2, grad, "grad");
  check_floats("weight", weight, 2, grad, "grad");
  check_size("weight", weight, 0, grad.size(1), "the columns of grad");
  const Tensor held_grad = contiguous_of(grad);
  const Tensor held_weight = contiguous_of(weight);
  return multiplied({.term = gnn::LinearTerm::input_gradient,
                     .rows = grad.size(0),
                     .inputs = weight.size(1),
                     .outputs = weight.size(0),
                     .device = device_of(grad)},
                    {.matrix = floats(held_weight), .gradient = floats(held_grad)}, grad);
}

Tensor linear_weight_gradient(const Tensor& grad, const Tensor& x) {
  check_floats("grad", grad, 2, grad, "grad");
  check_floats("x", x, 2, grad, "grad");
  check_size("x", x, 0, grad.size(0), "the rows of grad");
  const Tensor held_grad = contiguous_of(grad);
  const Tensor held_x = contiguous_of(x);
  return multiplied({.term = gnn::LinearTerm::matrix_gradient,
                     .rows = grad.size(0),
                     .inputs = x.size(1),
                     .outputs = grad.size(1),
                     .device = device_of(grad)},
                    {.input = floats(held_x), .gradient = floats(held_grad)}, grad);
}

}  // namespace rtopk::torch_binding
