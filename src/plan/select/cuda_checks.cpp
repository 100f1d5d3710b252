// Checks what the CUDA families are asked for, and plans that the caller may have changed.
#include "plan/select/cuda_checks.hpp"

#include <algorithm>

#include "core/checks.hpp"
#include "core/rows.hpp"
#include "core/sizes.hpp"
#include "plan/cuda.hpp"
#include "plan/select/cuda_configs.hpp"
#include "plan/select/tuning_cluster.hpp"
#include "plan/select/tuning_filter.hpp"
#include "plan/select/tuning_gather.hpp"
#include "plan/select/tuning_radix.hpp"
#include "plan/select/tuning_tournament.hpp"
#include "plan/select/workspace.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::size_t kMaxSharedBytes = std::size_t{1} << 20;  // of a block: several times what any GPU has

/// The problems that a family takes, for the error if it does not take this one.
const char* limits_of(Family family, bool general) {
  switch (family) {
    case Family::cuda_warp:
      return general ? "such rows of up to 1984 columns (1920 of 16 bits, 960 of f64)"
                     : "rows of up to 2048 columns (1024 of f64)";
    case Family::cuda_tournament:
      if (general) {
        return "pairs, k up to 8 and rows of up to 192 columns (255 of 16 bits, 128 of f64), or k up to 16 and rows of "
               "up to 128 (160 of 16 bits, none of f64)";
      }
      return "k up to 8 and rows of up to 1024 columns (128 of f64), or k up to 16 and rows of up to 128 "
             "(160 of 16 bits, none of f64)";
    case Family::cuda_block: return "rows of 16 bytes or more that fit into the shared memory of up to 8 blocks";
    case Family::cuda_filter:
      return "k up to what leaves room for two lists of candidates in shared memory, fewer than 2^31 - 65536 columns";
    default:
      return "k up to what leaves room for the list of candidates in shared memory, up to 2^19 columns for each block "
             "of a cluster";
  }
}

/// Checks that rows are gathered if and only if their strides need it.
Status check_chunk(const Plan& plan) {
  const std::int64_t rows = std::max(plan.problem.rows, std::int64_t{1});
  if (!is_gathered(plan.problem)) {
    return plan.chunk_rows == 0 ? Status{} : core::invalid("plan.chunk_rows", plan.chunk_rows, "0 for these strides");
  }
  if (plan.chunk_rows >= 1 && plan.chunk_rows <= std::min(rows, kMaxChunkRows)) return {};
  return core::status(StatusCode::invalid_argument, "plan.chunk_rows is %lld; accepted for these strides: 1 to %lld",
                      static_cast<long long>(plan.chunk_rows), static_cast<long long>(std::min(rows, kMaxChunkRows)));
}

/// Shared memory that cuda_cluster needs. Chunks that a caller made smaller may no longer count as many rows, but keep the
/// shorter list that was planned for many, which only is pruned more often.
std::int64_t cluster_least_bytes(const Plan& plan) {
  Problem many = plan.problem;
  many.rows = kClusterManyRows + 1;
  return std::min(cluster_shared_bytes(plan.problem, plan.parts, plan.threads),
                  cluster_shared_bytes(many, plan.parts, plan.threads));
}

/// Checks that the config of a plan fits its family. The kernels rely on it.
Status check_config(const Plan& plan) {
  const Problem& problem = plan.problem;
  const std::int64_t rows = std::max(problem.rows, std::int64_t{1});
  if (plan.blocks < 1 || plan.blocks > kMaxGridBlocks)
    return core::invalid("plan.blocks", plan.blocks, "1 to 2147483647");
  if (plan.rows_per_block < 1) return core::invalid("plan.rows_per_block", plan.rows_per_block, "1 or more");
  // A launch holds it in 32 bits. The device refuses more than it has.
  if (plan.shared_bytes > kMaxSharedBytes) {
    return core::status(StatusCode::invalid_argument, "plan.shared_bytes is %zu; accepted: at most %zu",
                        plan.shared_bytes, kMaxSharedBytes);
  }
  if (plan.family == Family::cuda_warp || plan.family == Family::cuda_tournament) {
    if (plan.family == Family::cuda_tournament && problem.k > kTournamentMaxK) {
      return core::invalid("plan.problem.k", problem.k, "1 to 16 for cuda_tournament");
    }
    if (!tiles_are_known(plan)) {
      return core::invalid("plan.elements_per_lane", plan.elements_per_lane, "what make_plan gave");
    }
    if (plan.blocks < core::ceil_div(rows, plan.rows_per_block))
      return core::invalid("plan.blocks", plan.blocks, "enough for all rows");
    return {};
  }
  if (plan.family == Family::cuda_filter) {
    if (problem.cols > kMaxFilteredCols)
      return core::invalid("plan.problem.cols", problem.cols, "up to 2147418111 for cuda_filter");
    if (plan.threads != 32 * kFilterWarpsPerBlock) return core::invalid("plan.threads", plan.threads, "64");
    if (plan.shared_bytes < filter_launch(problem.dtype, problem.k, 0).shared_bytes) {
      return core::invalid("plan.shared_bytes", static_cast<std::int64_t>(plan.shared_bytes),
                           "at least what make_plan gave");
    }
    return {};
  }
  if (plan.family == Family::cuda_cluster) {
    const bool power = plan.parts >= 1 && plan.parts <= kMaxParts && (plan.parts & (plan.parts - 1)) == 0;
    if (!power) return core::invalid("plan.parts", plan.parts, "1, 2, 4 or 8");
    const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
    if (problem.cols > kClusterMaxCols || cluster_part_cols(problem.cols, plan.parts, element) > kClusterMaxPartCols) {
      return core::invalid("plan.problem.cols", problem.cols, "up to 2^19 for each block of a cluster");
    }
    if (plan.threads != kClusterThreads && plan.threads != kClusterMoreThreads) {
      return core::invalid("plan.threads", plan.threads, "256 or 512");
    }
    if (plan.blocks != rows * plan.parts) return core::invalid("plan.blocks", plan.blocks, "plan.parts for each row");
    if (static_cast<std::int64_t>(plan.shared_bytes) < cluster_least_bytes(plan)) {
      return core::invalid("plan.shared_bytes", static_cast<std::int64_t>(plan.shared_bytes),
                           "at least what make_plan gave");
    }
    return {};
  }
  if (plan.family == Family::cuda_block) {
    const bool power = plan.parts >= 1 && plan.parts <= kMaxParts && (plan.parts & (plan.parts - 1)) == 0;
    if (!power) return core::invalid("plan.parts", plan.parts, "1, 2, 4 or 8");
    const BlockLayout layout = block_layout(problem, plan.parts);
    if (layout.chunks == 0) return core::invalid("plan.parts", plan.parts, "what make_plan gave");
    if (plan.threads != layout.threads) return core::invalid("plan.threads", plan.threads, "what make_plan gave");
    if (plan.blocks != rows * plan.parts) return core::invalid("plan.blocks", plan.blocks, "plan.parts for each row");
    if (static_cast<std::int64_t>(plan.shared_bytes) < layout.shared_bytes) {
      return core::invalid("plan.shared_bytes", static_cast<std::int64_t>(plan.shared_bytes),
                           "at least what make_plan gave");
    }
    return {};
  }
  if (plan.threads < 32 || plan.threads > 1024 || plan.threads % 32 != 0) {
    return core::invalid("plan.threads", plan.threads, "a multiple of 32 up to 1024");
  }
  if (plan.family == Family::cuda_radix && (plan.parts < 1 || plan.parts > plan.blocks)) {
    return core::invalid("plan.parts", plan.parts, "1 to plan.blocks");
  }
  if (plan.family == Family::cuda_radix && plan.parts < core::ceil_div(problem.cols, kRadixMaxPart)) {
    return core::invalid("plan.parts", plan.parts, "one for every 2^30 columns");
  }
  return {};
}

}  // namespace

Status check_general(const Problem& problem) noexcept {
  if (!core::is_general(problem)) return {};
  if (problem.cols > kRadixMaxPart) {
    return core::status(StatusCode::not_supported, "cols is %lld; accepted for these rows on a GPU: up to %lld",
                        static_cast<long long>(problem.cols), static_cast<long long>(kRadixMaxPart));
  }
  return {};
}

Status check_search(Family family, const Problem& problem, const char* argument) noexcept {
  const bool exact = !core::bisects(problem);
  if (core::is_general(problem)) {
    const bool takes = exact ? family == Family::cuda_warp || family == Family::cuda_tournament ||
                                   family == Family::cuda_block || family == Family::cuda_cluster ||
                                   family == Family::cuda_radix
                             : family == Family::cuda_scan;
    if (takes) return {};
    return core::status(StatusCode::invalid_argument, "%s is %s; accepted for these rows on a GPU: %s", argument,
                        name(family),
                        exact ? "cuda_warp, cuda_tournament, cuda_block, cuda_cluster or cuda_radix" : "cuda_scan");
  }
  switch (family) {
    case Family::cuda_warp: return {};
    case Family::cuda_scan:
      if (!exact) return {};
      break;
    case Family::cuda_tournament:
    case Family::cuda_block:
    case Family::cuda_cluster:
      if (exact || !core::makes_passes(problem)) return {};
      break;
    case Family::cuda_filter:
    case Family::cuda_radix:
      if (exact) return {};
      break;
    default: break;
  }
  return core::status(
      StatusCode::invalid_argument, "%s is %s; accepted for this search on a GPU: %s", argument, name(family),
      exact                         ? "cuda_warp, cuda_tournament, cuda_block, cuda_filter, cuda_cluster or cuda_radix"
      : core::makes_passes(problem) ? "cuda_warp or cuda_scan"
                                    : "cuda_warp, cuda_tournament, cuda_block, cuda_cluster or cuda_scan");
}

Status beyond_limits(Family family, const Problem& problem) noexcept {
  return core::status(StatusCode::invalid_argument, "family is %s, with %lld columns and k = %lld of %s; it takes %s",
                      name(family), static_cast<long long>(problem.cols), static_cast<long long>(problem.k),
                      name(problem.dtype), limits_of(family, core::is_general(problem)));
}

Status check_plan(const Plan& plan) noexcept {
  if (Status status = check_general(plan.problem); !status.ok()) return status;
  if (Status status = check_search(plan.family, plan.problem, "plan.family"); !status.ok()) return status;
  if (Status status = check_chunk(plan); !status.ok()) return status;
  const Plan as_run = plan.chunk_rows > 0 ? chunk_plan(plan, plan.chunk_rows) : plan;
  if (Status status = check_config(as_run); !status.ok()) return status;
  const std::size_t needed = workspace_of(plan).bytes;
  if (Status status = core::check_workspace(plan.problem, needed); !status.ok()) return status;
  if (plan.workspace_bytes < needed) {
    return core::status(StatusCode::invalid_argument, "plan.workspace_bytes is %zu; accepted: at least %zu",
                        plan.workspace_bytes, needed);
  }
  return {};
}

}  // namespace rtopk::cuda
