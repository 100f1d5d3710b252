// Row-wise selection: Problem -> make_plan -> Plan -> run. Problem and Plan are plain values that can be printed and compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <rtopk/execution.hpp>
#include <rtopk/types.hpp>

namespace rtopk {

/// One row-wise selection: of every row of a `rows` x `cols` matrix, the k largest (or smallest) elements.
///
/// Exact (the default): the k chosen indices are distinct, nothing left out beats anything chosen, and among equal
/// values at the border the lowest indices win, so the result is unique. Comparison is as in torch.topk: NaN is greater
/// than every number, -0 equals +0. Returned values are the input's bits.
struct Problem {
  std::int64_t rows = 0;  ///< >= 0.
  std::int64_t cols = 0;  ///< >= 1.
  std::int64_t k = 0;     ///< 1 <= k <= cols.

  // Where the input lies, in elements. Row r begins at (r / group_rows) * group_stride + (r % group_rows) * row_stride, and its
  // elements are element_stride apart. The columns of a matrix are rows of element_stride `its row stride` and row_stride 1.
  // Rows with element_stride 1 and without groups are read where they lie; others are copied to the workspace, a few at a time.
  // Results are always rows without gaps.
  std::int64_t row_stride = 0;      ///< From one row to the next; 0 means cols * element_stride. At least cols where
                                    ///< element_stride is 1, else at least 1: such rows may interleave.
  std::int64_t element_stride = 0;  ///< From one element of a row to the next, >= 1; 0 means 1.
  std::int64_t group_rows = 0;  ///< Rows that come group_stride after the group before them; 0: all rows are one group.
  std::int64_t group_stride = 0;  ///< >= 0; groups may interleave. Only with group_rows.

  DType dtype = DType::f32;
  Direction direction = Direction::largest;
  Order order = Order::unsorted;
  Form form = Form::pairs;
  IndexType index_type = IndexType::i64;  ///< i32 or i64 for pairs, u8 or u16 for CBSR; not used by other forms.

  bool values = true;   ///< Write values (pairs; CBSR always has them).
  bool indices = true;  ///< Write indices (pairs; CBSR always has them).
  bool passes = false;  ///< Write the number of search passes of each row.

  /// Early stopping, Algorithm 2 of the paper: this many bisection passes, then the first k elements at or above the
  /// lower bound, in index order. 0: none. At most 10000.
  std::int32_t max_iter = 0;
  /// Early stopping, Algorithm 1 of the paper: bisection until the interval is at most epsilon * |best value| wide.
  /// 0: exact. Finite, in [0, 1]. Not together with max_iter. Rows that hold a NaN or an infinity are always exact.
  double epsilon = 0.0;
  Search search = Search::fast;  ///< For exact selections.

  Device device{};

  friend bool operator==(const Problem&, const Problem&) = default;
};

/// Which code runs.
enum class Family : std::uint8_t {
  reference,        ///< Scalar, obvious, slow: what every other family is tested against.
  cpu_lanes,        ///< Short rows, sorted together by a fixed network of exchanges: one row in each lane of a vector.
  cpu_row,          ///< Search by counting over the whole row, which stays in the nearest cache.
  cpu_stream,       ///< One read of a long row; only what can still win is kept in a buffer and searched.
  cpu_bisection,    ///< The paper's bisection over the whole row.
  cuda_warp,        ///< A warp, or a part of one, has a row in its registers; each warp takes several rows in turn.
  cuda_tournament,  ///< The few best of a short row, by minima and maxima in a fixed order: no search.
  cuda_block,       ///< A block reads a row once and keeps what can still win in shared memory.
  cuda_filter,  ///< A warp reads a row once; what reaches a bar that it learnt from other rows is listed and searched.
  cuda_cluster,  ///< A cluster of blocks shares a long row, read once; what is above a bar drawn from a sample is searched.
  cuda_radix,  ///< The whole device finds the threshold of long rows digit by digit: any length, any k.
  cuda_scan,   ///< A block reads a long row once for every pass of the paper's bisection.
};

[[nodiscard]] RTOPK_API const char* name(Family family) noexcept;

/// What will run, with its numbers.
struct Plan {
  Problem problem{};
  Family family = Family::reference;

  std::int32_t threads = 1;             ///< CPU: tasks that share the blocks of rows, each with its own scratch.
                                        ///< CUDA: threads of a block.
  std::int64_t rows_per_block = 1;      ///< CPU: rows that one task takes at a time. CUDA: rows of a block.
  std::int64_t candidate_capacity = 0;  ///< cpu_stream: elements that the buffer holds.

  std::int32_t lanes_per_row = 0;      ///< CUDA: threads that share a row.
  std::int32_t elements_per_lane = 0;  ///< cuda_warp, cuda_tournament: elements of a row that a thread holds.
  std::int64_t blocks = 0;             ///< CUDA: blocks of the grid.
  std::int64_t parts = 0;              ///< cuda_cluster, cuda_radix: blocks that share a row.
  std::size_t shared_bytes = 0;        ///< CUDA: shared memory of a block.
  std::int64_t chunk_rows = 0;  ///< CUDA: rows that are copied to the workspace at a time, to which all other numbers
                                ///< then belong; 0: rows are read where they lie.

  std::size_t scratch_bytes = 0;    ///< CPU: of one task.
  std::size_t workspace_bytes = 0;  ///< What run() needs, in all. Any alignment. May be 0.

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Checks `problem` and picks what will run on a machine with these traits. Nothing is allocated or launched.
RTOPK_API Status make_plan(const Problem& problem, const Traits& traits, Plan& plan) noexcept;

/// The same, with the traits of `problem.device` as query_traits reads them.
RTOPK_API Status make_plan(const Problem& problem, Plan& plan) noexcept;

/// The same with a family that the caller wants, whatever it costs. If that family cannot take the problem the status says why, and
/// which can. Family::reference takes every problem of the CPU: the oracle for checks and tests.
RTOPK_API Status make_plan(const Problem& problem, const Traits& traits, Family family, Plan& plan) noexcept;
RTOPK_API Status make_plan(const Problem& problem, Family family, Plan& plan) noexcept;

/// Where results go. Rows are tight: k elements apart for pairs and CBSR, cols apart for dense and mask. A pointer that
/// the problem does not ask for is ignored; one that it asks for must not be null (unless rows is 0), must be aligned to
/// its element, and must not overlap the input, the workspace or another output.
struct Output {
  void* values = nullptr;          ///< pairs, cbsr: rows x k of the problem's dtype.
  void* indices = nullptr;         ///< pairs, cbsr: rows x k of the problem's index type.
  void* dense = nullptr;           ///< dense: rows x cols of the problem's dtype.
  std::uint8_t* mask = nullptr;    ///< mask: rows x cols.
  std::int32_t* passes = nullptr;  ///< rows, if Problem::passes.
};

/// Selects. On the CPU the result is there when it returns; on CUDA the work is queued on the stream. Allocates nothing,
/// prints nothing, and may be called from several threads at once. If the status is not ok, nothing was written.
RTOPK_API Status run(const Plan& plan, const void* input, const Output& output, Workspace workspace = {},
                     const Launch& launch = {}) noexcept;

/// One `name=value` per line, for people and for logs.
[[nodiscard]] RTOPK_API std::string to_string(const Plan& plan);

}  // namespace rtopk
