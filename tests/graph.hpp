// Graphs for tests of aggregation and transposition, also in device memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <rtopk/gnn/aggregate.hpp>

#include "device_memory.hpp"
#include "random.hpp"

namespace rtopk_test {

struct TestGraph {
  std::int64_t nodes = 0;
  std::vector<std::int64_t> row_starts;
  std::vector<std::int64_t> columns;
  std::vector<float> weights;

  [[nodiscard]] std::int64_t rows() const { return std::ssize(row_starts) - 1; }
  [[nodiscard]] std::int64_t edges() const { return std::ssize(columns); }
  [[nodiscard]] bool has_node(std::int64_t edge) const {
    const std::int64_t column = columns[static_cast<std::size_t>(edge)];
    return column >= 0 && column < nodes;
  }
};

/// Rows with these degrees and random neighbours. Loops and multiple edges occur.
TestGraph graph_of(const std::vector<std::int64_t>& degrees, std::int64_t nodes, Random& random);

/// Degrees: most rows are short, some are empty and a few are long.
std::vector<std::int64_t> random_degrees(std::int64_t rows, std::int64_t most, Random& random);

/// The expected A^T.
TestGraph transpose(const TestGraph& graph);

/// A graph in device memory.
struct GraphMemory {
  std::unique_ptr<DeviceMemory> row_starts, columns, weights;

  GraphMemory(rtopk::DeviceKind kind, const TestGraph& graph, rtopk::IndexType type);

  [[nodiscard]] rtopk::gnn::Graph view() const {
    return {row_starts->data(), columns->data(), static_cast<const float*>(weights->data())};
  }
};

}  // namespace rtopk_test
