// Operators for LayerNorm with an optional bias before it, in float32, on a GPU.
#pragma once

#include <tuple>

#include "rows.hpp"

namespace rtopk::torch_binding {

/// LayerNorm(x + bias) * gamma + beta for the rows of a matrix.
Tensor norm(const Tensor& x, const MaybeTensor& bias, const Tensor& gamma, const Tensor& beta, double epsilon);

/// Gradients of x, gamma, beta and, if there is one, the bias.
using NormGradients = std::tuple<Tensor, Tensor, Tensor, MaybeTensor>;

NormGradients norm_backward(const Tensor& x, const MaybeTensor& bias, const Tensor& gamma, double epsilon,
                            const Tensor& grad);

/// The same from a gradient in CBSR form.
NormGradients norm_compact_backward(const Tensor& x, const MaybeTensor& bias, const Tensor& gamma, double epsilon,
                                    const Tensor& values, const Tensor& selectors);

}  // namespace rtopk::torch_binding
