// Graphs in which every row has one more edge: to itself, or to a node of its own beside all others. With the weights
// of a graph convolution, if they are asked for. One call, because on a GPU the steps in between take longer to launch
// than to run, and a mini-batch has a new graph in every step.
#pragma once

#include <cstdint>

#include <rtopk/execution.hpp>
#include <rtopk/gnn/aggregate.hpp>
#include <rtopk/types.hpp>

namespace rtopk::gnn {

/// The edge that every row gets.
enum class OwnEdge : std::uint8_t {
  none,  ///< No edge: the weights alone are computed.
  /// From the row itself. Such edges that the row has already go away; the last of them gives the new one its weight.
  /// It lies behind as many edges as have smaller columns, where columns ascend: at its place in that order.
  self_loop,
  /// Row r gathers from column nodes + r, last: the matrix [A I].
  identity,
};

/// Row r of the result begins at row_starts[r] + r, and has one place more than before. Where self loops went away the
/// row's last places are empty: column -1 and weight 0, which an aggregation skips. So the size of the result follows
/// from the sizes alone. If row_starts[rows] is less than `edges`, as in a graph that is filled up to a size, the last
/// places of the result belong to no row either, and are not written.
///
/// A normalized edge from c to r has w / sqrt(total[r] total[c]), where total is the sum of the weights into a row, with
/// the new edges. It is computed in f64 and rounded once. A factor whose total is 0 is 0. Columns that are no rows have
/// a total of 1 with self loops, and of `others_total` without.
struct OwnEdges {
  OwnEdge edge = OwnEdge::none;
  std::int64_t rows = 0;   ///< Limits of rows, nodes and edges: as in Transposition.
  std::int64_t nodes = 0;  ///< At least `rows`, unless the edge is `identity`.
  std::int64_t edges = 0;
  IndexType graph_index_type = IndexType::i32;  ///< Of both graphs. Must hold edges + rows, and nodes + rows.
  bool weighted = false;                        ///< Edges have weights. If false, every weight is 1.
  bool normalized = false;                      ///< Not with `identity`.
  bool others_total = false;                    ///< With `none`: the total of columns that are no rows, 0 or 1.
  Device device{};

  friend bool operator==(const OwnEdges&, const OwnEdges&) = default;
};

/// The output. Must not overlap other memory of the call.
struct OwnEdgesResult {
  void* row_starts = nullptr;  ///< rows + 1, unless the edge is `none`.
  void* columns = nullptr;     ///< edges + rows, unless the edge is `none`.
  float* weights = nullptr;    ///< If weighted or normalized: one for each place.
  double* scales = nullptr;    ///< If normalized: rows, 1 / sqrt(total), or 0; NaN if the total is negative.
};

/// Checks the call and runs it. Invalid content of the graph is memory-safe, as in an aggregation. On the CPU it uses
/// only the calling thread. On CUDA the work is queued on the stream, and a row takes one thread.
RTOPK_API Status run(const OwnEdges& problem, const Graph& graph, const OwnEdgesResult& result,
                     const Launch& launch = {}) noexcept;

}  // namespace rtopk::gnn
