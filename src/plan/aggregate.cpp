// Picks the kernels and the config of an aggregation. Host code only.
#include <algorithm>
#include <bit>

#include "core/checks.hpp"
#include "core/sizes.hpp"
#include "plan/cuda.hpp"
#include "plan/derived_plan.hpp"
#include "plan/tuning_aggregate.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::int64_t kMaxRows = 0x7fffffff;
constexpr std::int64_t kMaxWarps = kMaxRows - kAggregateThreads / 32;
constexpr std::int64_t kMaxEdges = std::int64_t{1} << 39;  // the limit of the transposition

// Longest row that a scatter keeps in shared memory. Longer rows are read from global memory, which u16 selectors
// always allow.
constexpr std::int64_t kMaxStagedCols = 2048;
// Columns that a warp of cuda_stream has sums for. 8-bit selectors cannot point outside the smallest window.
constexpr std::int64_t kMinWindowCols = 256;
constexpr std::int64_t kMaxWindowCols = 2048;
// Sums of all edges that a warp adds at the same time: 8 KiB for each warp.
constexpr std::int64_t kMaxSums = 2048;

// Pieces: enough to keep every multiprocessor busy, few enough that slots and sums cost next to nothing. On an H200
// pieces of 256 edges are best for 0.9 million edges, of 512 for 14 million and more.
constexpr std::int64_t kPieces = 32768;
constexpr std::int64_t kMinPiece = 256;
constexpr std::int64_t kLargestPiece = 512;
// A row with more edges than this is not short: a warp with several such rows would end late. 32 is nearly as good; 16
// costs up to 6 %, 128 up to 10 %.
constexpr std::int64_t kShortEdges = 64;
// A warp counts the edges of its rows in 32 bits: up to 32 rows of up to twice this many.
constexpr std::int64_t kLargestAcceptedPiece = std::int64_t{1} << 24;

// A warp takes several rows, so that it sets up once and keeps many loads in flight. With few rows it takes fewer, so
// that each multiprocessor still gets several warps one after the other.
constexpr std::int64_t kWorkers = 32768;
constexpr std::int64_t kMaxRowsPerWorker = 16;
constexpr std::int64_t kMaxAcceptedRowsPerWorker = 32;

// Break-even: merging four partial sums over 16 columns costs as much as one edge.
constexpr std::int64_t kColsPerEdge = 16;
// Elements of cuda_stream_scatter's sums that stay in an L2 cache of 50 MB. A sweep takes at least one cache line of
// each node. If nodes have fewer edges than kManyEdges, reading the edges again costs more than it saves.
constexpr std::int64_t kSumsInCache = std::int64_t{9} << 20;
constexpr std::int64_t kMinElements = 32;
constexpr std::int64_t kManyEdges = 64;

std::int64_t power_of_two_from(std::int64_t x) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(x, std::int64_t{1}))));
}

/// Adding several edges at the same time leaves no lane of a warp idle and causes fewer bank conflicts. But the partial
/// sums must be merged when a row ends, so four pay only for rows with many edges or few columns.
std::int64_t edges_at_once_for(const gnn::Aggregation& problem, std::int64_t window_cols) {
  const std::int64_t elements = problem.k % 2 == 0 ? 2 : 1;  // per lane
  const bool four_pay = problem.edges >= problem.rows * problem.cols / kColsPerEdge;
  std::int64_t edges = four_pay ? 4 : 2;
  while (edges > 1 && (problem.k > 32 / edges * elements || window_cols * edges > kMaxSums)) edges /= 2;
  return edges;
}

/// Edges add to the sums in memory, so it matters most that the sums stay in the cache. If every node has many edges it
/// pays to sweep over all edges several times, each time for some of the elements.
std::int64_t elements_per_sweep_for(const gnn::Aggregation& problem) {
  const std::int64_t most = kSumsInCache / std::max(problem.nodes, std::int64_t{1}) / kMinElements * kMinElements;
  if (most < kMinElements || problem.k < 2 * most || problem.edges / kManyEdges < problem.nodes) return problem.k;
  const std::int64_t sweeps = core::ceil_div(problem.k, most);
  return core::ceil_div(core::ceil_div(problem.k, sweeps), kMinElements) * kMinElements;
}

/// Checks that the kernels can number rows, nodes and edges.
Status check_sizes(const gnn::Aggregation& problem) {
  if (problem.rows <= kMaxRows && problem.nodes <= kMaxRows && problem.edges <= kMaxEdges) return {};
  return core::status(
      StatusCode::not_supported,
      "rows is %lld, nodes %lld and edges %lld; accepted on a GPU: up to 2^31 - 1 rows and nodes, and 2^39 edges",
      static_cast<long long>(problem.rows), static_cast<long long>(problem.nodes),
      static_cast<long long>(problem.edges));
}

std::int64_t warps_of(const gnn::AggregationPlan& plan) {
  return slots_of(plan) + (walked_rows(plan) + plan.rows_per_worker - 1) / plan.rows_per_worker;
}

/// Sets the fields that follow from the problem and from the fields that were picked.
void derive(gnn::AggregationPlan& plan) {
  plan.threads = kAggregateThreads;
  plan.shared_bytes = shared_bytes_per_warp(plan) * (kAggregateThreads / 32);
  plan.workspace_bytes = aggregate_workspace(plan).bytes;
}

}  // namespace

std::size_t shared_bytes_per_warp(const gnn::AggregationPlan& plan) noexcept {
  const std::int64_t cols = plan.problem.cols;
  if (plan.family == gnn::AggregationFamily::cuda_stream) {
    return static_cast<std::size_t>(stream_words(plan.window_cols, plan.edges_at_once)) * sizeof(float);
  }
  if (scatters(plan) && cols <= kMaxStagedCols) {
    return static_cast<std::size_t>(2 * stream_scatter_pitch(cols)) * size_of(plan.problem.dtype);
  }
  return 0;
}

AggregateWorkspace aggregate_workspace(const gnn::AggregationPlan& plan) noexcept {
  const gnn::Aggregation& problem = plan.problem;
  AggregateWorkspace layout;
  std::int64_t bytes = 0;
  const auto part = [&bytes](std::int64_t count, std::int64_t size) {
    const auto begin = static_cast<std::size_t>(bytes);
    bytes += core::ceil_div(count * size, 256) * 256;
    return begin;
  };
  if (!scatters(plan)) {
    const std::int64_t width = problem.term == gnn::AggregationTerm::forward ? problem.cols : problem.k;
    layout.slot_rows = part(slots_of(plan), sizeof(std::int32_t));
    layout.partial_sums = part(slots_of(plan) * width, sizeof(float));
  } else if (problem.dtype != DType::f32) {
    layout.atomic_sums = part(problem.nodes * problem.k, sizeof(float));
  }
  layout.bytes = bytes == 0 ? 0 : static_cast<std::size_t>(bytes) + 255;
  return layout;
}

Status make_plan(const gnn::Aggregation& problem, gnn::AggregationPlan& plan) noexcept {
  if (Status status = check_sizes(problem); !status.ok()) return status;
  gnn::AggregationPlan made{.problem = problem, .family = gnn::AggregationFamily::cuda_stream};
  if (problem.term == gnn::AggregationTerm::backward) {
    made.family =
        problem.deterministic ? gnn::AggregationFamily::cuda_gather : gnn::AggregationFamily::cuda_stream_scatter;
  }
  made.piece_edges = std::clamp(power_of_two_from(problem.edges / kPieces), kMinPiece, kLargestPiece);
  made.short_edges = kShortEdges;
  if (made.family != gnn::AggregationFamily::cuda_gather) {
    const std::int64_t rows = (problem.rows + kWorkers - 1) / kWorkers;
    made.rows_per_worker = std::min(power_of_two_from(rows), kMaxRowsPerWorker);
  }
  if (made.family == gnn::AggregationFamily::cuda_stream) {
    made.window_cols = std::clamp(power_of_two_from(problem.cols), kMinWindowCols, kMaxWindowCols);
    made.edges_at_once = edges_at_once_for(problem, made.window_cols);
  }
  if (scatters(made)) made.elements_per_sweep = elements_per_sweep_for(problem);
  // A gather has a warp for each node, which may be a few warps too many.
  while (warps_of(made) > kMaxWarps) made.rows_per_worker *= 2;
  derive(made);
  plan = made;
  return {};
}

Status check_plan(const gnn::AggregationPlan& plan) noexcept {
  if (Status status = check_sizes(plan.problem); !status.ok()) return status;
  const bool forward = plan.problem.term == gnn::AggregationTerm::forward;
  const bool fits =
      forward ? plan.family == gnn::AggregationFamily::cuda_stream
              : plan.family == gnn::AggregationFamily::cuda_gather || (scatters(plan) && !plan.problem.deterministic);
  if (!fits) {
    return core::status(StatusCode::invalid_argument, "plan.family is %s; accepted for this term on a GPU: %s",
                        name(plan.family),
                        forward ? "cuda_stream" : "cuda_gather, or cuda_stream_scatter if not deterministic");
  }
  if (plan.rows_per_worker < 1 || plan.rows_per_worker > kMaxAcceptedRowsPerWorker) {
    return core::invalid("plan.rows_per_worker", plan.rows_per_worker, "1 to 32");
  }
  if (plan.piece_edges < 32 || plan.piece_edges > kLargestAcceptedPiece ||
      !std::has_single_bit(static_cast<std::uint64_t>(plan.piece_edges))) {
    return core::invalid("plan.piece_edges", plan.piece_edges, "a power of two from 32 to 2^24");
  }
  if (plan.short_edges < 0 || plan.short_edges >= 2 * plan.piece_edges) {
    return core::invalid("plan.short_edges", plan.short_edges, "0 or more, and less than 2 * piece_edges");
  }
  if (warps_of(plan) > kMaxWarps) {
    return core::status(StatusCode::invalid_argument,
                        "plan.piece_edges is %lld and rows_per_worker %lld; accepted: more, for less than 2^31 warps",
                        static_cast<long long>(plan.piece_edges), static_cast<long long>(plan.rows_per_worker));
  }
  if (plan.family == gnn::AggregationFamily::cuda_stream &&
      (plan.window_cols < kMinWindowCols || plan.window_cols > kMaxWindowCols ||
       !std::has_single_bit(static_cast<std::uint64_t>(plan.window_cols)))) {
    return core::invalid("plan.window_cols", plan.window_cols, "a power of two from 256 to 2048");
  }
  if (plan.family == gnn::AggregationFamily::cuda_stream &&
      ((plan.edges_at_once != 1 && plan.edges_at_once != 2 && plan.edges_at_once != 4) ||
       plan.window_cols * plan.edges_at_once > kMaxSums)) {
    return core::invalid("plan.edges_at_once", plan.edges_at_once, "1, 2 or 4, with up to 2048 sums in window_cols");
  }
  if (scatters(plan) && plan.elements_per_sweep != plan.problem.k &&
      (plan.elements_per_sweep < 4 || plan.elements_per_sweep > plan.problem.k || plan.elements_per_sweep % 4 != 0)) {
    return core::invalid("plan.elements_per_sweep", plan.elements_per_sweep, "k, or a smaller multiple of 4");
  }
  gnn::AggregationPlan derived = plan;
  derive(derived);
  return check_derived(plan, derived);
}

}  // namespace rtopk::cuda
