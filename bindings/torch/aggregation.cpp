// Kernels of the aggregation operators.
#include "aggregation.hpp"

#include <string>

#include <torch/csrc/stable/ops.h>

#include <rtopk/gnn/aggregate.hpp>

#include "execution.hpp"
#include "internal/own_edges.hpp"
#include "selection.hpp"
#include "tensor_checks.hpp"

namespace rtopk::torch_binding {
namespace {

using torch::headeronly::ScalarType;

/// A graph for the library, and the tensors that own its memory.
struct HeldGraph {
  Tensor row_starts;
  Tensor columns;
  MaybeTensor weights;

  [[nodiscard]] std::int64_t rows() const { return row_starts.numel() - 1; }
  [[nodiscard]] std::int64_t edges() const { return columns.numel(); }
  [[nodiscard]] IndexType index_type() const {
    return columns.scalar_type() == ScalarType::Long ? IndexType::i64 : IndexType::i32;
  }
  [[nodiscard]] gnn::Graph view() const {
    return {row_starts.const_data_ptr(), columns.const_data_ptr(),
            weights ? static_cast<const float*>(weights->const_data_ptr()) : nullptr};
  }
};

HeldGraph held(const Tensor& row_starts, const Tensor& columns, const MaybeTensor& weights) {
  check_dims("row_starts", row_starts, 1);
  check_dims("columns", columns, 1);
  if (row_starts.numel() == 0) refuse("row_starts is empty; accepted: one more than there are rows");
  const ScalarType type = columns.scalar_type();
  if ((type != ScalarType::Int && type != ScalarType::Long) || row_starts.scalar_type() != type) {
    refuse("row_starts and columns are not of one index type; accepted: both int32 or both int64");
  }
  check_device("row_starts", row_starts, columns, "columns");
  HeldGraph graph{contiguous_of(row_starts), contiguous_of(columns), std::nullopt};
  if (weights) {
    check_dims("weights", *weights, 1);
    check_size("weights", *weights, 0, columns.numel(), "the number of edges");
    if (weights->scalar_type() != ScalarType::Float) refuse("weights is not float32; accepted: float32 or None");
    check_device("weights", *weights, columns, "columns");
    graph.weights = contiguous_of(*weights);
  }
  return graph;
}

DType float_type_of(const char* name, const Tensor& tensor) {
  const DType dtype = element_type_of(tensor);
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) {
    refuse(std::string(name) + " has another dtype; accepted: float32, float16 or bfloat16");
  }
  return dtype;
}

}  // namespace

Tensor aggregate(const Tensor& row_starts, const Tensor& columns, const MaybeTensor& weights, const Tensor& values,
                 const Tensor& selectors, std::int64_t cols, bool mean, bool deterministic, const MaybeTensor&,
                 const MaybeTensor&, const MaybeTensor&) {
  const HeldGraph graph = held(row_starts, columns, weights);
  check_dims("values", values, 2);
  const IndexType selector_type = selector_type_of(selectors, cols);
  check_size("selectors", selectors, 0, values.size(0), "the rows of values");
  check_size("selectors", selectors, 1, values.size(1), "the columns of values");
  check_device("values", values, columns, "columns");
  check_device("selectors", selectors, columns, "columns");
  const Tensor held_values = contiguous_of(values);
  const Tensor held_selectors = contiguous_of(selectors);
  Tensor result = empty_matrix(graph.rows(), cols, values);
  const gnn::Aggregation problem{.term = gnn::AggregationTerm::forward,
                                 .rows = graph.rows(),
                                 .nodes = values.size(0),
                                 .edges = graph.edges(),
                                 .cols = cols,
                                 .k = values.size(1),
                                 .dtype = float_type_of("values", values),
                                 .selector_type = selector_type,
                                 .graph_index_type = graph.index_type(),
                                 .weighted = graph.weights.has_value(),
                                 .mean = mean,
                                 .deterministic = deterministic,
                                 .device = device_of(values)};
  if (problem.k == 0) return torch::stable::zero_(result);
  execute<gnn::AggregationPlan>(problem,
                                gnn::AggregationCall{.graph = graph.view(),
                                                     .values = held_values.const_data_ptr(),
                                                     .selectors = held_selectors.const_data_ptr(),
                                                     .result = result.mutable_data_ptr()},
                                result);
  return result;
}

Tensor aggregate_backward(const Tensor& row_starts, const Tensor& columns, const MaybeTensor& weights,
                          const Tensor& t_row_starts, const Tensor& t_columns, const MaybeTensor& t_weights,
                          const Tensor& grad, const Tensor& selectors, bool mean, bool deterministic) {
  const HeldGraph graph = held(row_starts, columns, weights);
  const HeldGraph transposed = held(t_row_starts, t_columns, t_weights);
  check_size("t_columns", t_columns, 0, graph.edges(), "the number of edges");
  check_dims("selectors", selectors, 2);
  check_size("t_row_starts", t_row_starts, 0, selectors.size(0) + 1, "one more than there are nodes");
  if (transposed.index_type() != graph.index_type())
    refuse("t_columns has another index type than columns; accepted: the same");
  if (weights.has_value() != t_weights.has_value())
    refuse("one of weights and t_weights is None; accepted: both or none");
  check_dims("grad", grad, 2);
  check_size("grad", grad, 0, graph.rows(), "the rows of the graph");
  const IndexType selector_type = selector_type_of(selectors, grad.size(1));
  check_device("t_columns", t_columns, columns, "columns");
  check_device("grad", grad, columns, "columns");
  check_device("selectors", selectors, columns, "columns");
  const Tensor held_grad = contiguous_of(grad);
  const Tensor held_selectors = contiguous_of(selectors);
  const Tensor result = empty_matrix(selectors.size(0), selectors.size(1), grad);
  const gnn::Aggregation problem{.term = gnn::AggregationTerm::backward,
                                 .rows = graph.rows(),
                                 .nodes = selectors.size(0),
                                 .edges = graph.edges(),
                                 .cols = grad.size(1),
                                 .k = selectors.size(1),
                                 .dtype = float_type_of("grad", grad),
                                 .selector_type = selector_type,
                                 .graph_index_type = graph.index_type(),
                                 .weighted = graph.weights.has_value(),
                                 .mean = mean,
                                 .deterministic = deterministic,
                                 .device = device_of(grad)};
  if (problem.k == 0) return result;
  execute<gnn::AggregationPlan>(problem,
                                gnn::AggregationCall{.graph = graph.view(),
                                                     .transposed = transposed.view(),
                                                     .selectors = held_selectors.const_data_ptr(),
                                                     .gradient = held_grad.const_data_ptr(),
                                                     .result = result.mutable_data_ptr()},
                                result);
  return result;
}

std::tuple<Tensor, Tensor, MaybeTensor> transpose_graph(const Tensor& row_starts, const Tensor& columns,
                                                        const MaybeTensor& weights, std::int64_t n) {
  const HeldGraph graph = held(row_starts, columns, weights);
  if (n < 0) refuse("n is " + std::to_string(n) + "; accepted: 0 or more, the number of nodes");
  const gnn::Transposition problem{.rows = graph.rows(),
                                   .nodes = n,
                                   .edges = graph.edges(),
                                   .graph_index_type = graph.index_type(),
                                   .weighted = graph.weights.has_value(),
                                   .device = device_of(columns)};
  gnn::TranspositionPlan plan;
  check(make_plan(problem, plan));
  const Tensor starts = empty_vector(n + 1, columns);
  const Tensor rows = empty_vector(graph.edges(), columns);
  MaybeTensor t_weights;
  if (graph.weights) t_weights = empty_vector(graph.edges(), *graph.weights);
  execute_on(problem.device, columns, plan.workspace_bytes, [&](Workspace workspace, const Launch& launch) {
    check(run(plan, graph.view(),
              {starts.mutable_data_ptr(), rows.mutable_data_ptr(),
               t_weights ? static_cast<float*>(t_weights->mutable_data_ptr()) : nullptr},
              workspace, launch));
  });
  return {starts, rows, t_weights};
}

OwnEdgesTensors own_edges(const Tensor& row_starts, const Tensor& columns, const MaybeTensor& weights, std::int64_t n,
                          std::int64_t edge, bool normalized, bool others_total) {
  const HeldGraph graph = held(row_starts, columns, weights);
  if (edge < 0 || edge > 2) refuse("edge is " + std::to_string(edge) + "; accepted: 0 to 2");
  const gnn::OwnEdges problem{.edge = static_cast<gnn::OwnEdge>(edge),
                              .rows = graph.rows(),
                              .nodes = n,
                              .edges = graph.edges(),
                              .graph_index_type = graph.index_type(),
                              .weighted = graph.weights.has_value(),
                              .normalized = normalized,
                              .others_total = others_total,
                              .device = device_of(columns)};
  const bool adds = problem.edge != gnn::OwnEdge::none;
  const std::int64_t places = adds ? graph.edges() + graph.rows() : graph.edges();
  MaybeTensor starts, new_columns, new_weights, scales;
  if (adds) {
    starts = empty_vector(graph.rows() + 1, columns);
    new_columns = empty_vector(places, columns);
  }
  if (graph.weights || normalized) new_weights = empty_vector(places, columns, aoti_torch_dtype_float32());
  if (normalized) scales = empty_vector(graph.rows(), columns, aoti_torch_dtype_float64());
  const auto memory_of = [](const MaybeTensor& tensor) { return tensor ? tensor->mutable_data_ptr() : nullptr; };
  execute_on(problem.device, columns, 0, [&](Workspace, const Launch& launch) {
    check(run(problem, graph.view(),
              {memory_of(starts), memory_of(new_columns), static_cast<float*>(memory_of(new_weights)),
               static_cast<double*>(memory_of(scales))},
              launch));
  });
  return {starts, new_columns, new_weights, scales};
}

}  // namespace rtopk::torch_binding
