// Which kernels an aggregation runs, with which numbers. Host code alone.
#include <algorithm>
#include <bit>

#include "aggregate_shape.hpp"
#include "backend.hpp"
#include "core/checks.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::int64_t kMostRows = 0x7fffffff;

// A row in shared memory of a scatter; longer ones are read from global memory, which u16 selectors can always do.
constexpr std::int64_t kMostStagedCols = 2048;
// Columns that a warp of cuda_rows has sums for: two sets of them are 16 KiB.
constexpr std::int64_t kMostWindowCols = 2048;

// Pieces: enough of them to keep every multiprocessor busy, and few enough that their sums cost next to nothing.
constexpr std::int64_t kPieces = 262144;
constexpr std::int64_t kLeastPiece = 128;
constexpr std::int64_t kLargestPiece = 1024;
constexpr std::int64_t kLargestAcceptedPiece = std::int64_t{1} << 28;
constexpr std::int64_t kLargestStreamedPiece = std::int64_t{1} << 24;

// A warp takes several rows, so that it sets up once.
constexpr std::int64_t kRowsPerWorker = 4;

std::int64_t round_up(std::int64_t x, std::int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

std::int64_t power_of_two_from(std::int64_t x) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(x, std::int64_t{1}))));
}

/// The window for `cols` columns with this many edges at once: a power of two of columns for each bank, four or more.
std::int64_t window_for(std::int64_t cols, std::int32_t edges_at_once) {
  const std::int64_t banks = 32 / edges_at_once;
  return banks * std::max<std::int64_t>(4, power_of_two_from((std::min(cols, kMostWindowCols) + banks - 1) / banks));
}

/// Sets what follows from the problem and the numbers that were picked.
void derive(AggregationPlan& plan) {
  plan.threads = kAggregateThreads;
  plan.shared_bytes = shared_bytes_per_warp(plan) * (kAggregateThreads / 32);
  plan.workspace_bytes = aggregate_workspace(plan).bytes;
}

}  // namespace

std::size_t shared_bytes_per_warp(const AggregationPlan& plan) noexcept {
  const std::int64_t cols = plan.problem.cols;
  std::int64_t words = 0;
  if (plan.family == AggregationFamily::cuda_rows) {
    words = 32 * cols_per_bank(plan) + 64;  // RowSums::words
  } else if (plan.family == AggregationFamily::cuda_stream) {
    words = plan.window_cols + 32;  // RowStreamer::words
  } else if (plan.family == AggregationFamily::cuda_stream_scatter && cols <= kMostStagedCols) {
    return static_cast<std::size_t>(2 * stream_scatter_pitch(cols)) * size_of(plan.problem.dtype);
  } else if (plan.family == AggregationFamily::cuda_scatter && cols <= kMostStagedCols) {
    words = std::max<std::int64_t>(cols, 256);  // scatter_words
  }
  return static_cast<std::size_t>(words) * sizeof(float);
}

AggregateWorkspace aggregate_workspace(const AggregationPlan& plan) noexcept {
  const Aggregation& problem = plan.problem;
  AggregateWorkspace layout;
  std::int64_t bytes = 0;
  const auto part = [&bytes](std::int64_t count, std::int64_t size) {
    const auto begin = static_cast<std::size_t>(bytes);
    bytes += round_up(count * size, 256);
    return begin;
  };
  if (!scatters(plan)) {
    const std::int64_t width = problem.pass == Pass::forward ? problem.cols : problem.k;
    layout.slot_rows = part(slots_of(plan), sizeof(std::int32_t));
    layout.partial_sums = part(slots_of(plan) * width, sizeof(float));
  } else if (problem.dtype != DType::f32) {
    layout.atomic_sums = part(problem.nodes * problem.k, sizeof(float));
  }
  layout.bytes = bytes == 0 ? 0 : static_cast<std::size_t>(bytes) + 255;
  return layout;
}

Status make_plan(const Aggregation& problem, const Traits& traits, AggregationPlan& plan) noexcept {
  if (problem.rows > kMostRows || problem.nodes > kMostRows) {
    return core::status(StatusCode::not_supported, "rows is %lld and nodes %lld; accepted on a GPU: up to 2^31 - 1",
                        static_cast<long long>(problem.rows), static_cast<long long>(problem.nodes));
  }
  AggregationPlan made{.problem = problem, .family = AggregationFamily::cuda_rows};
  if (problem.pass == Pass::backward) {
    made.family = problem.deterministic ? AggregationFamily::cuda_gather : AggregationFamily::cuda_scatter;
  }
  made.piece_edges = std::clamp(power_of_two_from(problem.edges / kPieces), kLeastPiece, kLargestPiece);
  made.rows_per_worker = made.family == AggregationFamily::cuda_gather ? 1 : kRowsPerWorker;
  if (made.family == AggregationFamily::cuda_rows) {
    const bool narrow = problem.selector_type == IndexType::u8;  // and so 256 columns at most
    made.edges_at_once = narrow ? 4 : 2;
    made.window_cols = window_for(problem.cols, made.edges_at_once);
  }
  derive(made);
  while (traits.shared_bytes_per_block > 0 && made.family == AggregationFamily::cuda_rows && made.window_cols > 256 &&
         made.shared_bytes > static_cast<std::size_t>(traits.shared_bytes_per_block)) {
    made.window_cols /= 2;
    derive(made);
  }
  plan = made;
  return {};
}

Status check_plan(const AggregationPlan& plan) noexcept {
  const auto invalid = [](const char* field, std::int64_t value, const char* accepted) {
    return core::status(StatusCode::invalid_argument, "plan.%s is %lld; accepted: %s", field,
                        static_cast<long long>(value), accepted);
  };
  const bool forward = plan.problem.pass == Pass::forward;
  const bool fits =
      forward ? plan.family == AggregationFamily::cuda_rows || plan.family == AggregationFamily::cuda_stream
              : plan.family == AggregationFamily::cuda_gather || (scatters(plan) && !plan.problem.deterministic);
  if (!fits) {
    return core::status(StatusCode::invalid_argument, "plan.family is %s; accepted for this pass on a GPU: %s",
                        name(plan.family),
                        forward ? "cuda_rows or cuda_stream"
                                : "cuda_gather, or cuda_scatter or cuda_stream_scatter if not deterministic");
  }
  if (plan.rows_per_worker < 1 || plan.rows_per_worker > kMostRows) {
    return invalid("rows_per_worker", plan.rows_per_worker, "1 to 2^31 - 1");
  }
  if (plan.piece_edges < 32 || plan.piece_edges > kLargestAcceptedPiece ||
      !std::has_single_bit(static_cast<std::uint64_t>(plan.piece_edges))) {
    return invalid("piece_edges", plan.piece_edges, "a power of two from 32 to 2^28");
  }
  if (streams(plan)) {
    // A warp counts the edges of its rows in 32 bits.
    if (plan.rows_per_worker > 32) return invalid("rows_per_worker", plan.rows_per_worker, "1 to 32");
    if (plan.piece_edges > kLargestStreamedPiece) return invalid("piece_edges", plan.piece_edges, "up to 2^24");
  }
  const std::int64_t warps = slots_of(plan) + (walked_rows(plan) + plan.rows_per_worker - 1) / plan.rows_per_worker;
  if (warps > kMostRows - kAggregateThreads / 32) return invalid("piece_edges", plan.piece_edges, "larger pieces");
  if (plan.family == AggregationFamily::cuda_rows) {
    if (plan.edges_at_once != 2 && (plan.edges_at_once != 4 || plan.problem.selector_type != IndexType::u8)) {
      return invalid("edges_at_once", plan.edges_at_once, "2, or 4 with selectors of 8 bits");
    }
    const std::int64_t per_bank = cols_per_bank(plan);
    if (per_bank < 4 || per_bank * (32 / plan.edges_at_once) != plan.window_cols ||
        !std::has_single_bit(static_cast<std::uint64_t>(per_bank)) || plan.window_cols > kMostWindowCols ||
        (plan.problem.selector_type == IndexType::u8 && plan.window_cols < plan.problem.cols)) {
      return invalid("window_cols", plan.window_cols, "as make_plan picks it");
    }
  }
  if (plan.family == AggregationFamily::cuda_stream &&
      (plan.window_cols < 256 || plan.window_cols > kMostWindowCols ||
       !std::has_single_bit(static_cast<std::uint64_t>(plan.window_cols)))) {
    return invalid("window_cols", plan.window_cols, "a power of two from 256 to 2048");
  }
  AggregationPlan derived = plan;
  derive(derived);
  if (!(derived == plan)) {
    return core::status(
        StatusCode::invalid_argument,
        "plan.threads, shared_bytes or workspace_bytes differ from what its numbers need; accepted: %d, "
        "%zu and %zu",
        derived.threads, derived.shared_bytes, derived.workspace_bytes);
  }
  return {};
}

}  // namespace rtopk::cuda
