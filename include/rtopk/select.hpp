// Row-wise top-k selection: Problem -> make_plan -> Plan -> run. Problems and plans are plain values that can be
// compared; plans can be printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <rtopk/execution.hpp>
#include <rtopk/rows.hpp>
#include <rtopk/types.hpp>

namespace rtopk {

/// One row-wise selection: the k largest (or smallest) elements of every row of a `rows` x `cols` matrix.
///
/// Selection is exact by default: the k selected indices are distinct, and no unselected element is better than a
/// selected one. Among elements equal to the kth value the lowest indices are selected, so that the result is unique.
/// Elements compare as in torch.topk: NaN is greater than every number, -0 equals +0. Output values are bit copies of
/// the input.
///
/// All strides of the input count elements. Row r begins at
///
///     (r / group_rows) * group_stride + (r % group_rows) * row_stride
///
/// and its elements are element_stride apart. To select along the columns of a row-major matrix, set row_stride to 1
/// and element_stride to the row stride of the matrix. Rows with element_stride 1 and without groups are read in
/// place. Others are copied to the workspace, some rows at a time. Results are always contiguous.
///
/// "The paper" is RTop-K, ICLR 2025: https://openreview.net/forum?id=PHg4rAXFVH
struct Problem {
  std::int64_t rows = 0;  ///< >= 0.
  std::int64_t cols = 0;  ///< >= 1.
  std::int64_t k = 0;     ///< 1 <= k <= cols.

  std::int64_t row_stride = 0;  ///< From one row to the next. 0 means cols * element_stride. Must be at least cols if
                                ///< element_stride is 1, else at least 1: such rows may interleave.
  std::int64_t element_stride = 0;  ///< From one element of a row to the next, >= 1. 0 means 1.
  std::int64_t group_rows = 0;      ///< Rows of a group. 0: all rows are one group.
  std::int64_t group_stride = 0;    ///< From one group to the next, >= 0. Groups may interleave. Only with group_rows.

  DType dtype = DType::f32;                  ///< Type of the elements.
  Direction direction = Direction::largest;  ///< Select the largest or the smallest elements.
  Order order = Order::unsorted;             ///< Order of the results of a row. dense and mask: not by_value.
  Form form = Form::pairs;                   ///< What is written.
  IndexType index_type = IndexType::i64;     ///< pairs: i32 or i64; CBSR: u8 or u16; ignored by other forms.

  bool values = true;   ///< pairs: write values. CBSR always has them.
  bool indices = true;  ///< pairs: write indices. CBSR always has them.
  bool passes = false;  ///< Write the number of passes of each row's search; of the paper's only with its search.

  /// Early stopping, Algorithm 2 of the paper: run this many bisection passes, then select by the rule. At most 10000.
  /// 0: off.
  std::int32_t max_iter = 0;
  Rule rule = Rule::threshold_first;  ///< Of max_iter; without it, ignored.
  /// Early stopping, Algorithm 1 of the paper: bisect until the interval is at most epsilon * |best value| wide.
  /// Finite, in [0, 1]. 0: off. Cannot be combined with max_iter. Rows with a NaN or an infinity are always exact.
  double epsilon = 0.0;
  Search search = Search::fast;  ///< How the threshold is searched for.

  bool magnitude = false;   ///< Compare absolute values. Results keep their sign.
  bool thresholds = false;  ///< pairs: also write the kth value of each row.
  Ragged ragged{};       ///< Rows with a length, start or k of their own; segments. Only where elements are adjacent.
  IndexMap index_map{};  ///< pairs: what the written indices are.

  Device device{};  ///< Where input, output and workspace are, and where the plan runs.

  friend bool operator==(const Problem&, const Problem&) = default;
};

/// The implementations of selection. make_plan picks one.
enum class Family : std::uint8_t {
  reference,      ///< Scalar and slow, but easy to verify: all other families are tested against it.
  cpu_lanes,      ///< Short rows: a sorting network sorts several rows at once, one in each vector lane.
  cpu_best,       ///< k up to 8: one read finds how good the best are, a second where they are.
  cpu_row,        ///< Counts over the whole row, which stays in the L1 cache.
  cpu_stream,     ///< Long rows: reads a row once, keeps candidates in a buffer and searches those.
  cpu_bisection,  ///< The paper's bisection over the whole row.
  /// A warp, or a part of one, holds a row in registers. Each warp works through a batch of rows.
  cuda_warp,
  /// Very small k of a short row: minima and maxima in a fixed order, without a search.
  cuda_tournament,
  /// A block, or up to 8 of a cluster, keep a row in shared memory. A sorted sample of the row tells where its kth value
  /// is.
  cuda_block,
  /// A warp reads a row once and lists the candidates: elements that reach a filter threshold learnt from other rows.
  cuda_filter,
  /// A block, or up to 8 of a cluster, read a long row once and list the candidates: elements that reach a filter
  /// threshold drawn from a sample of the row.
  cuda_cluster,
  /// Any length, any k. A block reads a row twice: a sample gives two keys between which the kth value most likely lies.
  /// Or as many blocks as keep the device busy find the kth value digit by digit.
  cuda_radix,
  cuda_scan,  ///< A block reads a long row once per pass of the paper's bisection.
};

/// The name of the enumerator, or "?" if the value is not an enumerator.
[[nodiscard]] RTOPK_API const char* name(Family family) noexcept;

/// What run() executes: a problem, the family that solves it, and the config of that family. Plans may be changed by
/// hand; run() checks them.
struct Plan {
  Problem problem{};
  Family family = Family::reference;

  std::int32_t threads = 1;  ///< CPU: number of tasks, each with its own scratch memory. CUDA: threads of a block.
  std::int64_t rows_per_block = 1;      ///< CPU: rows that a task takes at a time. CUDA: rows of a block.
  std::int64_t candidate_capacity = 0;  ///< cpu_stream: capacity of the candidate buffer, in elements.

  std::int32_t lanes_per_row = 0;      ///< CUDA: threads that share a row.
  std::int32_t elements_per_lane = 0;  ///< cuda_warp, cuda_tournament: elements of a row in one thread.
  std::int64_t blocks = 0;             ///< CUDA: blocks of the grid.
  std::int64_t parts = 0;              ///< CPU: parts of a row that tasks select from, for rows fewer than threads; the
                                       ///< other fields then describe the selection from parts. 0: rows are whole.
                                       ///< cuda_block, cuda_cluster, cuda_radix: blocks that share a row.
  std::size_t shared_bytes = 0;        ///< CUDA: shared memory of a block.
  std::int64_t chunk_rows = 0;         ///< CUDA: rows copied to the workspace at a time; the other fields then describe
                                       ///< the selection from one such chunk. 0: rows are read in place.

  std::size_t scratch_bytes = 0;    ///< CPU: scratch memory of one task.
  std::size_t workspace_bytes = 0;  ///< Workspace that run() needs. Any alignment. May be 0.

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Checks `problem` and plans it for a machine with these traits. Allocates and launches nothing.
RTOPK_API Status make_plan(const Problem& problem, const Traits& traits, Plan& plan) noexcept;

/// The same, with the traits that query_traits reads for `problem.device`.
RTOPK_API Status make_plan(const Problem& problem, Plan& plan) noexcept;

/// The same with a given family, even if another one is faster. If that family cannot solve the problem, the status
/// says why and which families can. Family::reference solves every CPU problem: use it as the oracle of a test.
RTOPK_API Status make_plan(const Problem& problem, const Traits& traits, Family family, Plan& plan) noexcept;
/// The same, with the traits that query_traits reads for `problem.device`.
RTOPK_API Status make_plan(const Problem& problem, Family family, Plan& plan) noexcept;

/// The output arrays. Rows are contiguous: k elements for pairs and CBSR, cols elements for dense and mask. Pointers
/// that the problem does not request are ignored. A requested pointer must not be null (unless rows is 0), must be
/// aligned to its element type, and must not overlap the input, the workspace or another output.
struct Output {
  void* values = nullptr;          ///< pairs, cbsr: rows x k of the problem's dtype.
  void* indices = nullptr;         ///< pairs, cbsr: rows x k of the problem's index type.
  void* dense = nullptr;           ///< dense: rows x cols of the problem's dtype.
  std::uint8_t* mask = nullptr;    ///< mask: rows x cols.
  std::int32_t* passes = nullptr;  ///< One per row, if Problem::passes.
  /// One of the problem's dtype per row, if Problem::thresholds: the last result in the order by value. A row that has
  /// fewer than k elements, or whose k is 0, has the value that loses against every element.
  void* thresholds = nullptr;
};

/// Executes the plan. On the CPU the result is complete on return. On CUDA the work is queued on the stream. Allocates
/// nothing and prints nothing. Several threads may call it at once. If the status is not ok, nothing was written.
/// `arrays`: for problems with Problem::ragged or Problem::index_map.
RTOPK_API Status run(const Plan& plan, const void* input, const Output& output, Workspace workspace = {},
                     const Launch& launch = {}, const RowArrays& arrays = {}) noexcept;

/// The plan as text, one `name=value` per line, for people and for logs.
[[nodiscard]] RTOPK_API std::string to_string(const Plan& plan);

}  // namespace rtopk
