// Transposition of a graph on the CPU: a counting sort of the edges by column.
#include <algorithm>
#include <cstdint>

#include "cpu/aggregate/aggregate.hpp"

namespace rtopk::cpu {
namespace {

template <class Index>
void transpose(const gnn::Transposition& p, const gnn::Graph& graph, const gnn::TransposedGraph& transposed) {
  const auto* row_starts = static_cast<const Index*>(graph.row_starts);
  const auto* columns = static_cast<const Index*>(graph.columns);
  auto* starts = static_cast<Index*>(transposed.row_starts);
  auto* rows = static_cast<Index*>(transposed.columns);
  const auto exists = [&](std::int64_t edge) { return columns[edge] >= 0 && columns[edge] < p.nodes; };
  const auto clamped = [&](std::int64_t row) { return std::clamp<std::int64_t>(row_starts[row], 0, p.edges); };

  // starts[c] goes through three states: the number of edges with column c; where row c of A^T begins; and, as its
  // edges are written, where the next edge goes. At the end that is where row c + 1 begins, so the starts shift up by
  // one.
  std::fill_n(starts, p.nodes + 1, Index{0});
  const std::int64_t first = p.rows > 0 ? clamped(0) : 0;
  const std::int64_t last = std::max(first, p.rows > 0 ? clamped(p.rows) : 0);
  std::int64_t kept = 0;
  for (std::int64_t edge = first; edge < last; ++edge) {
    if (!exists(edge)) continue;
    ++starts[columns[edge]];
    ++kept;
  }
  Index before = 0;
  for (std::int64_t node = 0; node <= p.nodes; ++node) {
    const Index count = starts[node];
    starts[node] = before;
    before += count;
  }
  std::int64_t next = first;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (const std::int64_t end = std::min(clamped(row + 1), last); next < end; ++next) {
      if (!exists(next)) continue;
      const Index at = starts[columns[next]]++;
      rows[at] = static_cast<Index>(row);
      if (p.weighted) transposed.weights[at] = graph.weights[next];
    }
  }
  for (std::int64_t node = p.nodes; node > 0; --node) starts[node] = starts[node - 1];
  starts[0] = 0;
  std::fill(rows + kept, rows + p.edges, Index{-1});
  if (p.weighted) std::fill(transposed.weights + kept, transposed.weights + p.edges, 0.0f);
}

}  // namespace

void run(const gnn::TranspositionPlan& plan, const gnn::Graph& graph, const gnn::TransposedGraph& transposed) noexcept {
  if (plan.problem.graph_index_type == IndexType::i64) {
    transpose<std::int64_t>(plan.problem, graph, transposed);
  } else {
    transpose<std::int32_t>(plan.problem, graph, transposed);
  }
}

}  // namespace rtopk::cpu
