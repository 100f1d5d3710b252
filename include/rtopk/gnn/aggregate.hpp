// Sums over the neighbours in a graph, of features that are kept as compact sparse rows (CBSR): the aggregation of
// MaxK-GNN and its derivative. As everywhere here: problem -> make_plan -> run.
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

enum class AggregationTerm : std::uint8_t {
  forward,   ///< Y = A X: the features of the nodes, summed over every row's edges.
  backward,  ///< dX = (A^T dY) at the selectors of X: what a gradient of Y is for the values of X.
};

/// One aggregation. A is a sparse matrix of `rows` x `nodes` with `edges` entries: an edge in row r and column c brings
/// the features of node c to row r. X has a row of `cols` features for every node, of which k are kept.
///
/// Sums are made in f32 whatever the type of the values, and rounded once. Their order is fixed by the plan, and on a GPU by
/// how memory is aligned, so that results repeat bit for bit; the one exception is a backward pass that is not `deterministic`.
struct Aggregation {
  AggregationTerm term = AggregationTerm::forward;
  std::int64_t rows = 0;   ///< >= 0; on a GPU up to 2^31 - 1.
  std::int64_t nodes = 0;  ///< The same.
  std::int64_t edges = 0;  ///< >= 0; on a GPU up to 2^39.
  std::int64_t cols = 0;   ///< 1 to 65536.
  std::int64_t k = 0;      ///< 1 <= k <= cols.

  DType dtype = DType::f32;                     ///< f32, f16 or bf16: of the values, the gradient and the result.
  IndexType selector_type = IndexType::u8;      ///< u8 (up to 256 columns) or u16.
  IndexType graph_index_type = IndexType::i32;  ///< i32 or i64: of row_starts and columns.
  bool weighted = false;                        ///< Every edge has a factor; else it is 1.
  bool mean = false;           ///< A row is divided by the number of its edges; one without edges is zero.
  bool deterministic = false;  ///< The backward pass may not use atomic additions, which are faster.

  Device device{};

  friend bool operator==(const Aggregation&, const Aggregation&) = default;
};

/// A sparse matrix by rows (CSR): the edges of row r are those from row_starts[r] to row_starts[r + 1].
///
/// Any content is safe: an edge whose column does not exist adds nothing, and starts are taken as lying within the edges. If
/// they do not ascend, nothing outside of the given memory is read or written, but what is in the result afterwards is
/// undefined: on a GPU rows are found by a search in the starts, and those that it misses stay as they were. A graph is
/// checked by whoever makes it, once, not here in every run.
struct Graph {
  const void* row_starts = nullptr;  ///< rows + 1 of the graph index type, ascending from 0 to edges.
  const void* columns = nullptr;     ///< edges of the graph index type.
  const float* weights = nullptr;    ///< edges, if weighted.
};

/// The memory of one run. What the pass does not read is ignored.
///
/// The selectors of a node are distinct, in any order; of two that are equal, what one of them brings may be lost. One that is
/// not below cols brings nothing, and its place in a gradient is zero (or NaN, if a weight is not finite). Ascending selectors,
/// as a selection writes them, are the fastest on a GPU.
struct AggregationCall {
  Graph graph{};                    ///< A.
  Graph transposed{};               ///< A^T, for a plan that gathers: see AggregationPlan::needs_transposed.
  const void* values = nullptr;     ///< forward: nodes x k.
  const void* selectors = nullptr;  ///< nodes x k.
  const void* gradient = nullptr;   ///< backward: rows x cols, dY.
  void* result = nullptr;           ///< forward: rows x cols; backward: nodes x k. Overlaps nothing else.
};

/// Which code runs.
enum class AggregationFamily : std::uint8_t {
  cpu_rows,    ///< Tasks take rows; a row's sums lie in the nearest cache.
  cpu_gather,  ///< The backward pass by the rows of A^T: tasks take nodes.
  cuda_stream,  ///< A warp takes the edges of some rows, or of a piece of a long one, as one stream; sums in shared memory.
  cuda_gather,          ///< The backward pass by the rows of A^T: a warp takes a node; its sums lie in registers.
  cuda_stream_scatter,  ///< The backward pass by the rows of A, in streams as well: atomic additions.
};

[[nodiscard]] RTOPK_API const char* name(AggregationTerm term) noexcept;
[[nodiscard]] RTOPK_API const char* name(AggregationFamily family) noexcept;

/// What will run, with its numbers.
struct AggregationPlan {
  Aggregation problem{};
  AggregationFamily family = AggregationFamily::cpu_rows;

  std::int32_t threads = 1;          ///< CPU: tasks that share the rows. CUDA: threads of a block.
  std::int64_t rows_per_worker = 1;  ///< Rows that a task takes at a time, or a warp in turn.
  std::int64_t piece_edges = 0;      ///< CUDA: a row of twice as many edges or more is split into pieces of this size.
  std::int64_t short_edges = 0;      ///< CUDA: rows of up to so many edges go to a warp in groups of rows_per_worker.
  std::int64_t window_cols = 0;      ///< cuda_stream: columns that a warp has sums for; more need several turns.
  std::int64_t edges_at_once = 1;    ///< cuda_stream: edges that a warp adds side by side, 1, 2 or 4.
  std::int64_t elements_per_sweep = 0;  ///< cuda_stream_scatter: elements of a node that one sweep over all edges adds.
  std::size_t shared_bytes = 0;         ///< CUDA: shared memory of a block.

  std::size_t scratch_bytes = 0;    ///< CPU: of one task.
  std::size_t workspace_bytes = 0;  ///< What run() needs, in all. Any alignment. May be 0.

  /// Whether a run reads AggregationCall::transposed.
  [[nodiscard]] constexpr bool needs_transposed() const noexcept {
    return family == AggregationFamily::cpu_gather || family == AggregationFamily::cuda_gather;
  }

  friend bool operator==(const AggregationPlan&, const AggregationPlan&) = default;
};

/// Checks `problem` and picks what will run on a machine with these traits. Nothing is allocated or launched.
RTOPK_API Status make_plan(const Aggregation& problem, const Traits& traits, AggregationPlan& plan) noexcept;

/// The same, with the traits of `problem.device` as query_traits reads them.
RTOPK_API Status make_plan(const Aggregation& problem, AggregationPlan& plan) noexcept;

/// Aggregates. On the CPU the result is there when it returns; on CUDA the work is queued on the stream. Allocates
/// nothing, prints nothing, and may be called from several threads at once. If the status is not ok, nothing was written.
RTOPK_API Status run(const AggregationPlan& plan, const AggregationCall& call, Workspace workspace = {},
                     const Launch& launch = {}) noexcept;

/// A^T from A, once for a graph: the edges of a row of A^T are in the order in which A has them, so that the result is
/// unique. Edges whose column does not exist are left out; the places that they leave, at the end, have column -1. If the
/// starts of A do not ascend, which edges the result has is undefined, but it is a graph: its starts ascend, its columns are
/// rows of A.
struct Transposition {
  std::int64_t rows = 0;   ///< Of A. As in an Aggregation, as the two that follow.
  std::int64_t nodes = 0;  ///< Columns of A.
  std::int64_t edges = 0;
  IndexType graph_index_type = IndexType::i32;  ///< i32 or i64, of both graphs.
  bool weighted = false;
  Device device{};

  friend bool operator==(const Transposition&, const Transposition&) = default;
};

struct TranspositionPlan {
  Transposition problem{};
  std::size_t workspace_bytes = 0;

  friend bool operator==(const TranspositionPlan&, const TranspositionPlan&) = default;
};

/// Where A^T goes: nodes + 1 row starts, edges columns and, if weighted, edges weights. They overlap nothing else.
struct TransposedGraph {
  void* row_starts = nullptr;
  void* columns = nullptr;
  float* weights = nullptr;
};

/// Asks the device, which must be here, how much workspace its sort needs.
RTOPK_API Status make_plan(const Transposition& problem, TranspositionPlan& plan) noexcept;

/// Transposes, under the terms of an aggregation's run(). On the CPU by the calling thread alone.
RTOPK_API Status run(const TranspositionPlan& plan, const Graph& graph, const TransposedGraph& transposed,
                     Workspace workspace = {}, const Launch& launch = {}) noexcept;

}  // namespace rtopk::gnn
