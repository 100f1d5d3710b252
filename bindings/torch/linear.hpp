// Operators for dense linear layers, in float32, on a GPU of compute capability 9.0.
#pragma once

#include "rows.hpp"

namespace rtopk::torch_binding {

/// x weight^T + bias.
Tensor linear(const Tensor& x, const Tensor& weight, const MaybeTensor& bias);

/// grad weight.
Tensor linear_input_gradient(const Tensor& grad, const Tensor& weight);

/// grad^T x.
Tensor linear_weight_gradient(const Tensor& grad, const Tensor& x);

}  // namespace rtopk::torch_binding
