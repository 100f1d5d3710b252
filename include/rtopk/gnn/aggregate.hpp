// Aggregation of MaxK-GNN and its gradient: sums of neighbour features over a graph, where features are compact
// balanced sparse rows (CBSR). Also the transposition of a graph. Usage: problem -> make_plan -> run.
//
//   rtopk::gnn::Aggregation problem{.rows = n, .nodes = n, .edges = e, .cols = 256, .k = 32};
//   rtopk::gnn::AggregationPlan plan;
//   if (auto status = rtopk::gnn::make_plan(problem, plan); !status.ok()) { ... status.text() ... }
//   std::vector<std::byte> workspace(plan.workspace_bytes);
//   auto status = rtopk::gnn::run(plan, {.graph = {row_starts, columns}, .values = values, .selectors = selectors,
//                                   .result = y}, {workspace.data(), workspace.size()});
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/execution.hpp>
#include <rtopk/types.hpp>

namespace rtopk::gnn {

/// What an aggregation computes.
enum class AggregationTerm : std::uint8_t {
  forward,   ///< Y = A X: every row of Y is the sum of the features of the row's neighbours.
  backward,  ///< dX = A^T dY, computed only at the selectors of X: the gradient of the values of X.
};

/// One aggregation. A is a sparse `rows` x `nodes` matrix with `edges` entries. An edge in row r and column c adds the
/// features of node c to row r. X has one row of `cols` features for every node. Each row is stored as k values with
/// their selectors (column numbers).
///
/// Sums are accumulated in f32 for every dtype and rounded once. The plan fixes their order (on a GPU the alignment of
/// the memory does, too), so that results repeat bit for bit. The only exception is `backward` without
/// `deterministic`.
struct Aggregation {
  AggregationTerm term = AggregationTerm::forward;
  std::int64_t rows = 0;   ///< >= 0. On a GPU at most 2^31 - 1.
  std::int64_t nodes = 0;  ///< >= 0. On a GPU at most 2^31 - 1.
  std::int64_t edges = 0;  ///< >= 0. On a GPU at most 2^39.
  std::int64_t cols = 0;   ///< 1 to 65536.
  std::int64_t k = 0;      ///< 1 <= k <= cols.

  DType dtype = DType::f32;                     ///< Type of values, gradient and result: f32, f16 or bf16.
  IndexType selector_type = IndexType::u8;      ///< u8 (for at most 256 columns) or u16.
  IndexType graph_index_type = IndexType::i32;  ///< Type of row_starts and columns: i32 or i64.
  bool weighted = false;                        ///< Edges have weights. If false, every weight is 1.
  bool mean = false;           ///< Divide a row by the number of its edges. A row without edges is zero.
  bool deterministic = false;  ///< backward: do not use atomic additions, which are faster.

  Device device{};

  friend bool operator==(const Aggregation&, const Aggregation&) = default;
};

/// A sparse matrix in CSR format: the edges of row r are row_starts[r] to row_starts[r + 1] - 1.
///
/// run() does not validate a graph: check it once, when it is made. Invalid content is memory-safe. An edge whose
/// column is out of range adds nothing. Row starts are clamped to [0, edges]. If they do not ascend, the content of
/// the result is undefined, and on a GPU some of its rows may stay unwritten. Nothing outside the given memory is read
/// or written.
struct Graph {
  const void* row_starts = nullptr;  ///< rows + 1 elements of graph_index_type, ascending from 0 to edges.
  const void* columns = nullptr;     ///< edges elements of graph_index_type.
  const float* weights = nullptr;    ///< edges elements, if weighted.
};

/// The memory of one run. Pointers that the term does not use are ignored.
///
/// The selectors of a node must be distinct, in any order. If two are equal, the contribution of one of them may be
/// lost. A selector >= cols contributes nothing, and its element of a gradient is zero (or NaN, if a weight is not
/// finite). Ascending selectors, as a selection writes them, are the fastest on a GPU.
struct AggregationCall {
  Graph graph{};                    ///< A.
  Graph transposed{};               ///< A^T. Read if AggregationPlan::needs_transposed().
  const void* values = nullptr;     ///< forward: nodes x k.
  const void* selectors = nullptr;  ///< nodes x k.
  const void* gradient = nullptr;   ///< backward: dY, rows x cols.
  void* result = nullptr;  ///< forward: rows x cols; backward: nodes x k. Must not overlap other memory of the call.
};

/// The implementations of aggregation. make_plan picks one.
enum class AggregationFamily : std::uint8_t {
  cpu_rows,    ///< Tasks take rows of A. The sums of a row stay in the L1 cache.
  cpu_gather,  ///< backward over the rows of A^T: tasks take nodes.
  /// A warp takes the edges of a batch of rows, or of a piece of a long row, as one stream. Sums are in shared memory.
  cuda_stream,
  /// backward over the rows of A^T: a warp takes a node. Sums are in registers.
  cuda_gather,
  /// backward over the rows of A, as edge streams. Sums are atomic additions to the result.
  cuda_stream_scatter,
};

/// The name of the enumerator, or "?" if the value is not an enumerator.
[[nodiscard]] RTOPK_API const char* name(AggregationTerm term) noexcept;
/// The name of the enumerator, or "?" if the value is not an enumerator.
[[nodiscard]] RTOPK_API const char* name(AggregationFamily family) noexcept;

/// What run() executes: a problem, the family that solves it, and the config of that family.
struct AggregationPlan {
  Aggregation problem{};
  AggregationFamily family = AggregationFamily::cpu_rows;

  std::int32_t threads = 1;          ///< CPU: number of tasks. CUDA: threads of a block.
  std::int64_t rows_per_worker = 1;  ///< CPU: rows that a task takes at a time. CUDA: rows in a warp's batch.
  std::int64_t piece_edges = 0;      ///< CUDA: a row of at least twice as many edges is split into pieces of this size.
  std::int64_t short_edges = 0;  ///< CUDA: rows of at most this many edges go to a warp in batches of rows_per_worker.
  std::int64_t window_cols = 0;  ///< cuda_stream: columns that a warp sums at a time. Wider rows take several sweeps.
  std::int64_t edges_at_once = 1;       ///< cuda_stream: edges that a warp adds in parallel: 1, 2 or 4.
  std::int64_t elements_per_sweep = 0;  ///< cuda_stream_scatter: elements of a node that one sweep over all edges adds.
  std::size_t shared_bytes = 0;         ///< CUDA: shared memory of a block.

  std::size_t scratch_bytes = 0;    ///< CPU: scratch memory of one task.
  std::size_t workspace_bytes = 0;  ///< Workspace that run() needs. Any alignment. May be 0.

  /// True if a run reads AggregationCall::transposed.
  [[nodiscard]] constexpr bool needs_transposed() const noexcept {
    return family == AggregationFamily::cpu_gather || family == AggregationFamily::cuda_gather;
  }

  friend bool operator==(const AggregationPlan&, const AggregationPlan&) = default;
};

/// Checks `problem` and plans it for a machine with these traits. Allocates and launches nothing.
RTOPK_API Status make_plan(const Aggregation& problem, const Traits& traits, AggregationPlan& plan) noexcept;

/// The same, with the traits that query_traits reads for `problem.device`.
RTOPK_API Status make_plan(const Aggregation& problem, AggregationPlan& plan) noexcept;

/// Runs the aggregation. On the CPU the result is complete on return. On CUDA the work is queued on the stream.
/// Allocates nothing and prints nothing. Several threads may call it at once. If the status is not ok, nothing was
/// written.
RTOPK_API Status run(const AggregationPlan& plan, const AggregationCall& call, Workspace workspace = {},
                     const Launch& launch = {}) noexcept;

/// Computes A^T from A, once per graph. The edges of a row of A^T keep the order that they have in A, so that the
/// result is unique. Edges whose column is out of range are dropped; the unused places at the end get column -1 and
/// weight 0. If the row starts of A do not ascend, it is undefined which edges the result contains, but the result is
/// a valid graph: its row starts ascend and its columns are rows of A.
struct Transposition {
  std::int64_t rows = 0;                        ///< Rows of A. Limits of rows, nodes and edges: as in Aggregation.
  std::int64_t nodes = 0;                       ///< Columns of A.
  std::int64_t edges = 0;                       ///< Entries of A.
  IndexType graph_index_type = IndexType::i32;  ///< Index type of both graphs: i32 or i64.
  bool weighted = false;                        ///< Edges have weights.
  Device device{};

  friend bool operator==(const Transposition&, const Transposition&) = default;
};

/// What run() executes: a problem and the workspace that it needs.
struct TranspositionPlan {
  Transposition problem{};
  std::size_t workspace_bytes = 0;  ///< Workspace that run() needs. Any alignment. May be 0.

  friend bool operator==(const TranspositionPlan&, const TranspositionPlan&) = default;
};

/// The output of a transposition: A^T. Must not overlap other memory of the call.
struct TransposedGraph {
  void* row_starts = nullptr;  ///< nodes + 1 elements of graph_index_type.
  void* columns = nullptr;     ///< edges elements of graph_index_type.
  float* weights = nullptr;    ///< edges elements, if weighted.
};

/// Checks `problem` and plans it. On CUDA it asks the device how much workspace the sort needs, so the device must
/// exist.
RTOPK_API Status make_plan(const Transposition& problem, TranspositionPlan& plan) noexcept;

/// Transposes, with the same guarantees as run() of an aggregation. On the CPU it uses only the calling thread.
RTOPK_API Status run(const TranspositionPlan& plan, const Graph& graph, const TransposedGraph& transposed,
                     Workspace workspace = {}, const Launch& launch = {}) noexcept;

}  // namespace rtopk::gnn
