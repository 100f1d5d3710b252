// A graph with the type of its indices, as the kernels of aggregations read it.
#pragma once

#include <algorithm>
#include <cstdint>

#include <rtopk/gnn/aggregate.hpp>

namespace rtopk::cpu {

// Neighbours are anywhere in memory: prefetch their features this many edges ahead.
constexpr std::int64_t kPrefetchEdges = 8;
constexpr std::int64_t kCacheLine = 64;

/// A graph with typed indices: Index is std::int32_t or std::int64_t.
template <class Index>
struct GraphOf {
  const Index* row_starts;
  const Index* columns;
  const float* weights;
  std::int64_t edges;
  std::int64_t nodes;

  /// First edge of a row. Clamped, because row starts may be invalid.
  [[nodiscard]] std::int64_t begin(std::int64_t row) const {
    return std::clamp<std::int64_t>(row_starts[row], 0, edges);
  }
  [[nodiscard]] std::int64_t end(std::int64_t row) const {
    return std::clamp<std::int64_t>(row_starts[row + 1], begin(row), edges);
  }
  [[nodiscard]] bool has_node(std::int64_t edge) const { return columns[edge] >= 0 && columns[edge] < nodes; }
  [[nodiscard]] float weight(std::int64_t edge) const { return weights != nullptr ? weights[edge] : 1.0f; }
};

template <class Index>
GraphOf<Index> graph_of(const gnn::Graph& graph, const gnn::Aggregation& problem, std::int64_t nodes) {
  return {static_cast<const Index*>(graph.row_starts), static_cast<const Index*>(graph.columns),
          problem.weighted ? graph.weights : nullptr, problem.edges, nodes};
}

inline void prefetch(const void* from, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(static_cast<const char*>(from) + at);
}

}  // namespace rtopk::cpu
