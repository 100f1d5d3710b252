// Picks the CPU family for a problem, and its config.
#include "plan/select/cpu.hpp"

#include <algorithm>

#include "core/checks.hpp"
#include "core/rows.hpp"
#include "core/sizes.hpp"
#include "plan/select/split.hpp"
#include "plan/select/tuning_cpu.hpp"
#include "plan/select/tuning_tile.hpp"

namespace rtopk::cpu {
namespace {

/// Elements that a task takes at a time: small enough to balance rows of different cost, large enough that taking a
/// block costs nothing. It does not depend on the number of threads. So the hint that a row gets from the row before
/// it, where to begin its search, and the reported passes are the same for any number.
constexpr std::int64_t kElementsPerBlock = 32768;

/// If there are enough rows, long rows too come in blocks of a few, so that a row can learn from the one before it.
constexpr std::int64_t kRowsPerBlock = 8;

/// Below this many elements per thread, waking a thread costs more than it gains (about 20 us against 0.5 ns an
/// element).
constexpr std::int64_t kElementsPerThread = 65536;

/// The same two limits for cpu_lanes, which takes 2 to 10 ns an element and learns nothing from row to row. Blocks are
/// large enough to hide the cost of working out the exchanges, up to 3 us for each block.
constexpr std::int64_t kSortedElementsPerBlock = 16384;
constexpr std::int64_t kSortedElementsPerThread = 32768;

/// For rows of at least this length, with at most this share selected (1/8), it pays to discard most of the row in the
/// first pass and to search the rest. Measured on a Neoverse N1, f32, ns per element, cpu_row against cpu_stream:
/// 256 columns, k = 8: 1.39, 1.61; 512 columns, k = 16: 1.23, 1.11; k = 64: 1.36, 1.40;
/// 1024 columns, k = 64: 1.25, 1.00; k = 204: 1.38, 1.39.
constexpr std::int64_t kStreamedColumns = 448;
constexpr std::int64_t kStreamedShare = 8;

/// The first of these for 16-bit rows that cpu_row searches digit by digit, which it does with vectors of 64 bytes.
/// Measured on a Xeon with AVX-512, f16, ns per row, cpu_row against cpu_stream: 512 columns, k = 16: 674, 1057;
/// k = 64: 815, 1207; 768 columns, k = 32: 1056, 898; k = 96: 1306, 1771; 1024 columns, k = 128: 1892, 1814.
constexpr std::int64_t kStreamedColumnsAfterDigits = 704;
constexpr std::int64_t kDigitsVectorBytes = 64;

/// The shortest row, in bytes, in which cpu_best finds a single element. Measured on a Neoverse N1, ns per row, cpu_lanes
/// against cpu_best: f32, 32 columns: 55, 38; f16, 32 columns: 29, 43; 64 columns: 53, 50; f64, 32 columns: 116, 47.
constexpr std::int64_t kBestBytes = 128;
/// The same for 64 bits, in columns: cpu_lanes has their columns in lanes of their own.
constexpr std::int64_t kMinBestColumns = 8;

/// Columns for each of 2 and more elements that cpu_best finds, and the longest row, in bytes, in which it does: it reads
/// a row twice, cpu_stream once. Measured on a Neoverse N1, ns per row, the search against cpu_best:
/// f32, 256 columns, k = 2: 376, 170; k = 8: 401, 323; 1024 columns, k = 8: 693, 653; softmax: 1748, 641;
/// 2048 columns, k = 8: 1014, 1030; softmax: 3003, 1042; f16, 2048 columns, k = 8: 1050, 724.
constexpr std::int64_t kFewColumns = 32;
constexpr std::int64_t kMaxFewBytes = 8192;

/// A search that stops early makes its passes if these read fewer bytes of a row; otherwise its result is derived from the
/// exact selection. After kMostPasses, most searches have ended. Measured on a Xeon with AVX-512, times the exact
/// selection, passes against derived, with max_iter 4, 8, 12: f32, 1024 columns: 0.92, 1.39; 1.11, 1.88; 1.19, 1.49;
/// 16384 columns: 1.09, 1.59; 1.74, 1.46; 1.84, 1.56; 65536 columns: 1.66, 1.77; 2.57, 1.88; 2.27, 1.69;
/// 262144 columns: 2.15, 1.83; 2.53, 1.89; 3.08, 1.88; bf16, 65536 columns: 1.78, 1.61; 2.32, 1.83; 2.50, 1.54.
constexpr std::int64_t kPassedBytes = std::int64_t{768} << 10;
constexpr std::int32_t kMostPasses = 16;

/// Elements that cpu_stream's buffer must hold: twice k, so that a prune, which reads the buffer a few times, happens
/// at most every k candidates, and the elements that are listed at a time.
std::int64_t candidate_capacity(const Problem& problem) {
  return std::min(problem.cols, 2 * problem.k + 256) + static_cast<std::int64_t>(kListedAtOnce);
}

/// The most that the buffer may hold: no memory has more.
constexpr std::int64_t kMaxCandidates = std::int64_t{1} << 48;

/// The smallest group of rows that fills the lanes of most vectors.
constexpr std::int64_t kMinLanesGroup = 16;

/// Rows that cpu_lanes sorts at once: four vectors of keys with their columns, or of 64-bit keys.
std::int64_t lanes_rows(const Problem& problem, std::int64_t vector_bytes) {
  return 4 * vector_bytes / std::min<std::int64_t>(8, 2 * static_cast<std::int64_t>(size_of(problem.dtype)));
}

}  // namespace

/// True if sorting many short rows at once, one in each lane, beats searching one after the other. A few rows do not
/// fill the lanes, and do not pay for working out the exchanges. The sort yields the order by value for free; index
/// order costs more. Measured on a Neoverse N1, ns per row, cpu_lanes against cpu_row:
/// f32, by value and unsorted: 8 columns, k = 2: 23, 173 and 24, 145; 32 columns, k = 8: 150, 229 and 159, 171;
/// k = 16: 206, 298 and 232, 186; 48 columns, k = 12: 284, 289 and 311, 197;
/// f32, by value: 64 columns, k = 2: 157, 202; k = 16: 394, 329; k = 64: 740, 839.
/// Lanes of 16-bit elements are half as wide, and take fewer instructions to compare. Those of 64-bit elements have
/// columns beside them.
/// bf16, 128 columns, k = 32: 587, 512 by value; k = 64: 823, 959;
/// f64, 24 columns, k = 8: 247, 271; 32 columns, k = 8: 333, 259; 64 columns, k = 64: 1503, 1155.
/// Wider vectors sort more rows at once, while a search gains little: most of its time is between the passes. With four
/// times as wide vectors (AVX-512 on a Xeon) it pays for twice as many columns and twice as large k:
/// f32, unsorted: 64 columns, k = 8: 137, 250; k = 16: 219, 394; k = 32: 442, 412; 160 columns, k = 8: 453, 345;
/// f32, by value: 96 columns, k = 12: 364, 555; 192 columns, k = 32: 818, 626; k = 160: 2131, 3322;
/// f16, unsorted: 128 columns, k = 16: 223, 325; k = 32: 411, 359; by value: 192 columns, k = 12: 701, 750;
/// f64, unsorted: 22 columns, k = 5: 89, 250; 64 columns, k = 4: 226, 259; k = 11: 335, 294.
bool sorts_in_lanes(const Problem& problem, std::int64_t vector_bytes) noexcept {
  const std::int64_t together = std::min(problem.rows, core::group_rows_of(problem));
  if (problem.cols > kMaxLanesColumns || together < problem.cols / 2) return false;
  if (together < problem.rows && together < kMinLanesGroup) return false;
  const auto size = static_cast<std::int64_t>(size_of(problem.dtype));
  // Lanes without a row count as if vectors were narrower.
  const std::int64_t width =
      vector_bytes * std::min(together, lanes_rows(problem, vector_bytes)) / lanes_rows(problem, vector_bytes);
  // Columns and k both grow with the square root of the width: squares, to stay with whole numbers.
  const std::int64_t bytes = problem.cols * size;
  const auto within = [&](std::int64_t most_bytes) { return 16 * bytes * bytes <= most_bytes * most_bytes * width; };
  const std::int64_t exchanges = bytes * bytes * problem.k;
  if (exchanges * exchanges <= (std::int64_t{1} << 22) * width * width * width) return true;
  if (problem.order != Order::by_value) return problem.k == problem.cols && problem.cols <= (size == 8 ? 32 : 48);
  // Most of the row is selected: cpu_row would have to sort nearly all of it after the search.
  const bool most = size == 2 ? 2 * problem.k >= problem.cols : 4 * problem.k >= 3 * problem.cols;
  return within(192) || (most && within(256));
}

namespace {

/// True if a copy of a row by magnitude would leave the caches before it is read.
bool is_too_long_to_copy(const Problem& problem) {
  return problem.magnitude && !core::bisects(problem) &&
         problem.cols > kCopiedBytes / static_cast<std::int64_t>(size_of(problem.dtype));
}

/// True if the groups of cpu_best, whose best elements are compared, beat a search.
bool looks_for_best(const Problem& problem) {
  if (is_too_long_to_copy(problem)) return false;
  const auto size = static_cast<std::int64_t>(size_of(problem.dtype));
  if (problem.k == 1) return problem.cols >= (size == 8 ? kMinBestColumns : kBestBytes / size);
  return problem.k <= kMaxBest && problem.cols >= kFewColumns * problem.k && problem.cols <= kMaxFewBytes / size;
}

/// True if it pays to discard most of a row in the first pass.
bool streams(const Problem& problem, std::int64_t vector_bytes) {
  const bool digits = size_of(problem.dtype) == 2 && vector_bytes >= kDigitsVectorBytes;
  const std::int64_t columns = digits ? kStreamedColumnsAfterDigits : kStreamedColumns;
  return problem.cols >= columns && (problem.k <= problem.cols / kStreamedShare || is_too_long_to_copy(problem));
}

/// True if the passes of a search that stops early take less time than an exact search and what follows from it.
bool passes_are_cheap(const Problem& problem) {
  const std::int32_t passes = problem.max_iter == 0 ? kMostPasses : std::min(problem.max_iter, kMostPasses);
  return problem.cols < kPassedBytes / static_cast<std::int64_t>(size_of(problem.dtype)) / passes;
}

/// The magnitude of the least integer has no place among integers of 32 bits, and the paper's search computes with it.
bool only_for_reference(const Problem& problem) {
  return problem.magnitude && core::bisects(problem) && problem.dtype == DType::i32;
}

Family pick_family(const Problem& problem, const Kernels& kernels) {
  if (!kernels.simd || only_for_reference(problem)) return Family::reference;
  if (core::makes_passes(problem)) return Family::cpu_bisection;
  if (core::stops_early(problem)) {
    const bool derives = streams(problem, kernels.vector_bytes) && !passes_are_cheap(problem);
    return derives ? Family::cpu_stream : Family::cpu_bisection;
  }
  if (looks_for_best(problem)) return Family::cpu_best;
  if (sorts_in_lanes(problem, kernels.vector_bytes)) return Family::cpu_lanes;
  return streams(problem, kernels.vector_bytes) ? Family::cpu_stream : Family::cpu_row;
}

/// Elements of a row as far as a plan can know: the mean of segments.
std::int64_t mean_cols(const Problem& problem) {
  if (!core::is_flat(problem) || problem.rows == 0) return problem.cols;
  return std::clamp<std::int64_t>(problem.ragged.elements / problem.rows, 1, problem.cols);
}

/// Checks that a family can take a problem, however slowly. `argument`: how the error names the family.
Status check_family(Family family, const Problem& problem, const Kernels& kernels, const char* argument) {
  if (family == Family::reference) return {};
  if (!kernels.simd) {
    return core::status(StatusCode::invalid_argument,
                        "%s is %s, and this build has no SIMD kernels for this CPU; accepted: reference", argument,
                        name(family));
  }
  if (only_for_reference(problem)) {
    return core::status(StatusCode::invalid_argument,
                        "%s is %s; accepted for the paper's search by magnitude of i32 on a CPU: reference", argument,
                        name(family));
  }
  const bool exact = !core::makes_passes(problem);
  const bool lanes = exact && problem.cols <= kMaxLanesColumns;
  const bool best = exact && problem.k <= kMaxBest;
  const bool passes = core::bisects(problem);
  const bool takes = (family == Family::cpu_lanes && lanes) || (family == Family::cpu_best && best) ||
                     ((family == Family::cpu_row || family == Family::cpu_stream) && exact) ||
                     (family == Family::cpu_bisection && passes);
  if (takes) return {};
  return core::status(StatusCode::invalid_argument,
                      "%s is %s; accepted for this problem on a CPU: %s%s%s%s%s or reference", argument, name(family),
                      lanes ? "cpu_lanes, " : "", best ? "cpu_best, " : "", exact ? "cpu_row, cpu_stream" : "",
                      exact && passes ? ", " : "", passes ? "cpu_bisection" : "");
}

/// The shortest row that is split. Measured on two cores of a Neoverse N1, f32, k = 50, us with one thread and with two:
/// 151936 columns: 38, 35; 262144: 57, 63; 524288: 106, 86; 1048576: 197, 136; 4194304: 757, 484. If the other core is
/// busy, two threads take longer than one: 37, 52 and 754, 819 for the first and the last.
constexpr std::int64_t kSplitColumns = 524288;

/// More parts than threads, so that the others can go on while a thread wakes up. On two idle cores it makes no
/// difference.
constexpr std::int64_t kPartsPerThread = 2;

/// Parts of each row where rows are fewer than the threads; 0 if they stay whole. The results of all parts must be few
/// against what they are selected from.
std::int64_t parts_for(const Problem& problem, std::int32_t threads) {
  if (problem.rows == 0 || problem.rows >= threads || problem.cols < kSplitColumns) return 0;
  const std::int64_t parts = std::min(
      {kPartsPerThread * threads, problem.cols / kElementsPerBlock, problem.cols / problem.k / kStreamedShare});
  return can_split(problem, parts) ? parts : 0;
}

/// The workspace of a plan whose other fields are set.
std::size_t workspace_bytes(const Plan& plan, const Kernels& kernels) {
  const std::size_t scratch = core::bytes_of(plan.threads, plan.scratch_bytes);
  if (plan.parts == 0) return scratch;
  Plan last;
  const Problem candidates = candidates_of_rows(plan.problem, plan.parts);
  if (!make_plan(candidates, Traits{.threads = 1}, std::nullopt, kernels, last).ok()) return core::kMaxBytes + 1;
  return split_layout(plan.problem, plan.parts, std::max(scratch, last.workspace_bytes)).bytes;
}

}  // namespace

Family family_of_row(Family planned, const Problem& row, std::int64_t vector_bytes) noexcept {
  const bool too_short = planned == Family::cpu_lanes || (planned == Family::cpu_best && !looks_for_best(row)) ||
                         (planned == Family::cpu_stream && !streams(row, vector_bytes));
  return too_short ? Family::cpu_row : planned;
}

Status make_plan(const Problem& problem, const Traits& traits, std::optional<Family> wanted, const Kernels& kernels,
                 Plan& plan) noexcept {
  const std::int64_t parts = kernels.simd && wanted != Family::reference ? parts_for(problem, traits.threads) : 0;
  if (parts > 0) {
    Plan made;
    if (Status status = make_plan(parts_of_row(problem, parts), traits, wanted, kernels, made); !status.ok()) {
      return status;
    }
    made.problem = problem;
    made.parts = parts;
    made.workspace_bytes = workspace_bytes(made, kernels);
    if (Status status = core::check_workspace(problem, made.workspace_bytes); !status.ok()) return status;
    plan = made;
    return {};
  }
  Plan made{.problem = problem, .family = wanted.value_or(pick_family(problem, kernels))};
  if (Status status = check_family(made.family, problem, kernels, "family"); !status.ok()) return status;
  const bool sorts = made.family == Family::cpu_lanes;
  const std::int64_t cols = mean_cols(problem);
  made.rows_per_block = std::max({(sorts ? kSortedElementsPerBlock : kElementsPerBlock) / cols,
                                  std::min(kRowsPerBlock, problem.rows / 32), std::int64_t{1}});
  if (sorts) {
    const std::int64_t at_once = lanes_rows(problem, kernels.vector_bytes);
    made.rows_per_block = (made.rows_per_block + at_once - 1) / at_once * at_once;
  }
  const std::int64_t tile = std::max(tile_rows(problem), std::int64_t{1});
  made.rows_per_block = (made.rows_per_block + tile - 1) / tile * tile;
  if (made.family == Family::cpu_stream) made.candidate_capacity = candidate_capacity(problem);
  made.scratch_bytes = kernels.scratch_bytes(made);
  const std::int64_t blocks = (problem.rows + made.rows_per_block - 1) / made.rows_per_block;
  const std::int64_t worthwhile = problem.rows * cols / (sorts ? kSortedElementsPerThread : kElementsPerThread);
  made.threads = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(std::min(blocks, worthwhile), 1, static_cast<std::int64_t>(traits.threads)));
  made.workspace_bytes = workspace_bytes(made, kernels);
  if (Status status = core::check_workspace(problem, made.workspace_bytes); !status.ok()) return status;
  plan = made;
  return {};
}

Status check_plan(const Plan& plan, const Kernels& kernels) noexcept {
  Plan selects = plan;  // what tasks select from: rows, or parts of them
  if (plan.parts != 0) {
    if (plan.family == Family::reference || !can_split(plan.problem, plan.parts)) {
      return core::status(StatusCode::invalid_argument,
                          "plan.parts is %lld; accepted: 0 or, for exact pairs without passes of whole rows "
                          "whose elements are adjacent, 2 to cols / k",
                          static_cast<long long>(plan.parts));
    }
    selects.problem = parts_of_row(plan.problem, plan.parts);
    selects.parts = 0;
  }
  if (Status status = check_family(plan.family, selects.problem, kernels, "plan.family"); !status.ok()) return status;
  if (plan.threads < 1 || plan.rows_per_block < 1) {
    return core::status(StatusCode::invalid_argument,
                        "plan.threads is %d and plan.rows_per_block %lld; accepted: 1 or more", plan.threads,
                        static_cast<long long>(plan.rows_per_block));
  }
  const std::int64_t least = candidate_capacity(selects.problem);
  if (plan.family == Family::cpu_stream &&
      (plan.candidate_capacity < least || plan.candidate_capacity > std::max(least, kMaxCandidates))) {
    return core::status(StatusCode::invalid_argument, "plan.candidate_capacity is %lld; accepted: %lld to 2^48",
                        static_cast<long long>(plan.candidate_capacity), static_cast<long long>(least));
  }
  const std::size_t scratch = kernels.scratch_bytes(selects);
  const std::size_t workspace = workspace_bytes(plan, kernels);
  if (plan.scratch_bytes < scratch || plan.workspace_bytes < workspace || plan.workspace_bytes > core::kMaxBytes) {
    return core::status(StatusCode::invalid_argument,
                        "plan.scratch_bytes is %zu and plan.workspace_bytes %zu; accepted: at least %zu and %zu, less "
                        "than 2^63",
                        plan.scratch_bytes, plan.workspace_bytes, scratch, workspace);
  }
  return {};
}

}  // namespace rtopk::cpu
