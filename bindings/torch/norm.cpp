// Kernels of the LayerNorm operators.
#include "norm.hpp"

#include <string>

#include <torch/csrc/stable/ops.h>

#include <rtopk/gnn/norm.hpp>

#include "execution.hpp"
#include "tensor_checks.hpp"

namespace rtopk::torch_binding {
namespace {

/// The inputs of all three operators for the library, and the tensors that own their memory.
struct HeldInput {
  Tensor x;
  MaybeTensor bias;
  Tensor gamma;

  [[nodiscard]] gnn::Norm problem(gnn::NormTerm term, double epsilon) const {
    return {.term = term,
            .rows = x.size(0),
            .cols = x.size(1),
            .biased = bias.has_value(),
            .epsilon = static_cast<float>(epsilon),
            .device = device_of(x)};
  }
  [[nodiscard]] gnn::NormCall call() const {
    return {.input = floats(x), .bias = bias ? floats(*bias) : nullptr, .gamma = floats(gamma)};
  }
};

void check_column(const char* name, const Tensor& column, const Tensor& x) {
  check_floats(name, column, 1, x, "x");
  check_size(name, column, 0, x.size(1), "the columns of x");
}

HeldInput held(const Tensor& x, const MaybeTensor& bias, const Tensor& gamma) {
  check_floats("x", x, 2, x, "x");
  check_column("gamma", gamma, x);
  HeldInput input{contiguous_of(x), std::nullopt, contiguous_of(gamma)};
  if (bias) {
    check_column("bias", *bias, x);
    input.bias = contiguous_of(*bias);
  }
  return input;
}

NormGradients gradients(const HeldInput& input, const gnn::Norm& problem, gnn::NormCall call) {
  NormGradients made{empty_matrix(problem.rows, problem.cols, input.x), empty_vector(problem.cols, input.x),
                     empty_vector(problem.cols, input.x), std::nullopt};
  auto& [of_x, of_gamma, of_beta, of_bias] = made;
  if (input.bias) of_bias = empty_vector(problem.cols, input.x);
  call.result = mutable_floats(of_x);
  call.gamma_gradient = mutable_floats(of_gamma);
  call.beta_gradient = mutable_floats(of_beta);
  call.bias_gradient = of_bias ? mutable_floats(*of_bias) : nullptr;
  execute<gnn::NormPlan>(problem, call, of_x);
  return made;
}

}  // namespace

Tensor norm(const Tensor& x, const MaybeTensor& bias, const Tensor& gamma, const Tensor& beta, double epsilon) {
  const HeldInput input = held(x, bias, gamma);
  check_column("beta", beta, x);
  const Tensor held_beta = contiguous_of(beta);
  const gnn::Norm problem = input.problem(gnn::NormTerm::rows, epsilon);
  Tensor result = empty_matrix(problem.rows, problem.cols, x);
  gnn::NormCall call = input.call();
  call.beta = floats(held_beta);
  call.result = mutable_floats(result);
  execute<gnn::NormPlan>(problem, call, result);
  return result;
}

NormGradients norm_backward(const Tensor& x, const MaybeTensor& bias, const Tensor& gamma, double epsilon,
                            const Tensor& grad) {
  const HeldInput input = held(x, bias, gamma);
  check_floats("grad", grad, 2, x, "x");
  check_size("grad", grad, 0, x.size(0), "the rows of x");
  check_size("grad", grad, 1, x.size(1), "the columns of x");
  const Tensor held_grad = contiguous_of(grad);
  gnn::NormCall call = input.call();
  call.gradient = floats(held_grad);
  return gradients(input, input.problem(gnn::NormTerm::gradient, epsilon), call);
}

NormGradients norm_compact_backward(const Tensor& x, const MaybeTensor& bias, const Tensor& gamma, double epsilon,
                                    const Tensor& values, const Tensor& selectors) {
  const HeldInput input = held(x, bias, gamma);
  check_floats("values", values, 2, x, "x");
  check_size("values", values, 0, x.size(0), "the rows of x");
  const IndexType selector_type = selector_type_of(selectors, x.size(1));
  check_size("selectors", selectors, 0, values.size(0), "the rows of values");
  check_size("selectors", selectors, 1, values.size(1), "the columns of values");
  check_device("selectors", selectors, x, "x");
  const Tensor held_values = contiguous_of(values);
  const Tensor held_selectors = contiguous_of(selectors);
  gnn::NormCall call = input.call();
  call.values = floats(held_values);
  call.selectors = held_selectors.const_data_ptr();
  gnn::Norm problem = input.problem(gnn::NormTerm::compact_gradient, epsilon);
  problem.k = values.size(1);
  problem.selector_type = selector_type;
  return gradients(input, problem, call);
}

}  // namespace rtopk::torch_binding
