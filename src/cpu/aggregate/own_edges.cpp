// Graphs with one more edge in every row, on the CPU.
#include "core/gnn/own_edges.hpp"

#include "cpu/aggregate/aggregate.hpp"

namespace rtopk::cpu {
namespace {

template <class Index>
void write_rows(const gnn::OwnEdges& problem, const core::RowsWithOwnEdges<Index>& rows) {
  if (problem.normalized) {
    for (std::int64_t row = 0; row < problem.rows; ++row) rows.write_scale(row);
  }
  for (std::int64_t row = 0; row <= problem.rows; ++row) rows.write_row(row);
}

}  // namespace

void run(const gnn::OwnEdges& problem, const gnn::Graph& graph, const gnn::OwnEdgesResult& result) noexcept {
  if (problem.graph_index_type == IndexType::i64) {
    write_rows(problem, core::RowsWithOwnEdges<std::int64_t>(problem, graph, result));
  } else {
    write_rows(problem, core::RowsWithOwnEdges<std::int32_t>(problem, graph, result));
  }
}

}  // namespace rtopk::cpu
