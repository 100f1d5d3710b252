// Operators for aggregations over a graph: torch.ops.rtopk.aggregate and its gradients.
#pragma once

#include <cstdint>
#include <tuple>

#include "rows.hpp"

namespace rtopk::torch_binding {

/// Only the backward operator reads the transposed graph.
Tensor aggregate(const Tensor& row_starts, const Tensor& columns, const MaybeTensor& weights, const Tensor& values,
                 const Tensor& selectors, std::int64_t cols, bool mean, bool deterministic,
                 const MaybeTensor& t_row_starts, const MaybeTensor& t_columns, const MaybeTensor& t_weights);

Tensor aggregate_backward(const Tensor& row_starts, const Tensor& columns, const MaybeTensor& weights,
                          const Tensor& t_row_starts, const Tensor& t_columns, const MaybeTensor& t_weights,
                          const Tensor& grad, const Tensor& selectors, bool mean, bool deterministic);

std::tuple<Tensor, Tensor, MaybeTensor> transpose_graph(const Tensor& row_starts, const Tensor& columns,
                                                        const MaybeTensor& weights, std::int64_t n);

/// Row starts, columns, weights and scales.
using OwnEdgesTensors = std::tuple<MaybeTensor, MaybeTensor, MaybeTensor, MaybeTensor>;

OwnEdgesTensors own_edges(const Tensor& row_starts, const Tensor& columns, const MaybeTensor& weights, std::int64_t n,
                          std::int64_t edge, bool normalized, bool others_total);

}  // namespace rtopk::torch_binding
