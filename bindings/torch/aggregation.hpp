// Aggregations over a graph on tensors: the kernels of torch.ops.rtopk.aggregate and its kin.
#pragma once

#include <cstdint>
#include <tuple>

#include "rows.hpp"

namespace rtopk::torch_binding {

/// The transposed graph is for the derivative alone.
Tensor aggregate(const Tensor& row_starts, const Tensor& columns, const MaybeTensor& weights, const Tensor& values,
                 const Tensor& selectors, std::int64_t cols, bool mean, bool deterministic,
                 const MaybeTensor& t_row_starts, const MaybeTensor& t_columns, const MaybeTensor& t_weights);

Tensor aggregate_backward(const Tensor& row_starts, const Tensor& columns, const MaybeTensor& weights,
                          const Tensor& t_row_starts, const Tensor& t_columns, const MaybeTensor& t_weights,
                          const Tensor& grad, const Tensor& selectors, bool mean, bool deterministic);

std::tuple<Tensor, Tensor, MaybeTensor> transpose_graph(const Tensor& row_starts, const Tensor& columns,
                                                        const MaybeTensor& weights, std::int64_t n);

}  // namespace rtopk::torch_binding
