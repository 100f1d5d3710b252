// Random graphs, and graphs in device memory.
#include "graph.hpp"

#include <iterator>
#include <utility>

#include "encoding.hpp"

namespace rtopk_test {

TestGraph graph_of(const std::vector<std::int64_t>& degrees, std::int64_t nodes, Random& random) {
  TestGraph graph{.nodes = nodes, .row_starts = {0}, .columns = {}, .weights = {}};
  for (const std::int64_t degree : degrees) {
    graph.row_starts.push_back(graph.row_starts.back() + degree);
    for (std::int64_t i = 0; i < degree; ++i) {
      graph.columns.push_back(random.between(0, nodes - 1));
      graph.weights.push_back(static_cast<float>(random.uniform() + 0.5));
    }
  }
  return graph;
}

std::vector<std::int64_t> random_degrees(std::int64_t rows, std::int64_t most, Random& random) {
  std::vector<std::int64_t> degrees;
  for (std::int64_t i = 0; i < rows; ++i) {
    const double u = random.uniform();
    degrees.push_back(static_cast<std::int64_t>(static_cast<double>(most) * u * u * u * u));
  }
  return degrees;
}

TestGraph transpose(const TestGraph& graph) {
  TestGraph result{.nodes = graph.rows(), .row_starts = {0}, .columns = {}, .weights = {}};
  std::vector<std::vector<std::pair<std::int64_t, float>>> lists(static_cast<std::size_t>(graph.nodes));
  for (std::int64_t row = 0; row < graph.rows(); ++row) {
    const auto r = static_cast<std::size_t>(row);
    for (std::int64_t edge = graph.row_starts[r]; edge < graph.row_starts[r + 1]; ++edge) {
      const auto e = static_cast<std::size_t>(edge);
      if (graph.has_node(edge)) lists[static_cast<std::size_t>(graph.columns[e])].emplace_back(row, graph.weights[e]);
    }
  }
  for (const auto& list : lists) {
    for (const auto& [row, weight] : list) {
      result.columns.push_back(row);
      result.weights.push_back(weight);
    }
    result.row_starts.push_back(result.edges());
  }
  result.columns.resize(graph.columns.size(), -1);
  result.weights.resize(graph.weights.size(), 0.0f);
  return result;
}

GraphMemory::GraphMemory(rtopk::DeviceKind kind, const TestGraph& graph, rtopk::IndexType type)
    : row_starts(DeviceMemory::make(kind, encode(graph.row_starts, type), 0)),
      columns(DeviceMemory::make(kind, encode(graph.columns, type), 0)),
      weights(DeviceMemory::make(kind, encode(graph.weights, rtopk::DType::f32), 0)) {}

}  // namespace rtopk_test
