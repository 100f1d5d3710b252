// Picks the CUDA family for a problem.
#include <algorithm>

#include "core/checks.hpp"
#include "core/rows.hpp"
#include "plan/cuda.hpp"
#include "plan/select/cuda_checks.hpp"
#include "plan/select/cuda_configs.hpp"
#include "plan/select/tuning_block.hpp"
#include "plan/select/tuning_cluster.hpp"
#include "plan/select/tuning_filter.hpp"
#include "plan/select/tuning_gather.hpp"
#include "plan/select/workspace.hpp"

namespace rtopk::cuda {
namespace {

/// True if cuda_tournament is the fastest where it takes the problem. It merges lists of 16 if several lanes share a
/// row: then it takes longer than cuda_warp's search of aligned rows. Measured, f32, times the floor, cuda_warp and
/// cuda_tournament: 128 columns, k 16, dense: 1.18, 1.64; 200 columns, k 10: 1.47, 2.20; k 7, dense: 1.04, 1.39.
bool prefers_tournament(const Problem& problem) {
  if (size_of(problem.dtype) != 4 || !has_aligned_rows(problem) || problem.cols <= 64) return true;
  const bool writes_rows = problem.form == Form::dense || problem.form == Form::mask;
  return problem.k <= 8 && !(writes_rows && problem.cols > 128);
}

/// True if cuda_block is the fastest: two of its blocks fit on a multiprocessor, so that one selects while the other
/// copies, and there are enough rows for that, or they are short.
bool prefers_block(const Traits& traits, const Problem& problem) {
  constexpr std::int64_t kBlocks = 2;
  constexpr std::int64_t kShort = 16384;
  const BlockLayout layout = block_layout(problem, 1);
  if (layout.chunks == 0) return false;
  if (kBlocks * (layout.shared_bytes + kReservedBytes) > traits.shared_bytes_per_block + kReservedBytes) return false;
  return problem.cols <= kShort || problem.rows >= kBlocks * traits.multiprocessors;
}

/// True if cuda_cluster is the fastest: rows are long, a small share of each is selected, and the matrix is so large that
/// it is better read than kept in shared memory. Measured, times the floor, cuda_cluster and cuda_block: 700 rows of
/// 150000, f32, k 512: 1.27, 2.46; k 4096: 1.78, 2.91; bf16, k 512: 1.55, 2.70; k 9375: 6.2, 3.8; 64 rows of 131072,
/// f32, k 512: 1.89, 2.67; 64 rows of 32768: 2.91, 2.55; 1500 rows of 30001, f32, k 512: 1.73, 1.94; 8686 rows of 25468,
/// bf16, k 167: 2.02, 1.64; 539 rows of 52865, f16, k 118: 1.88, 1.56; 32 rows of 131072, k 1024: f32 2.33, 2.71, bf16
/// 2.60, 2.85; 23 rows of 158464, f32: 1.98, 1.72; 12 rows of 269317, f32, k 2151: 2.10, 1.74.
bool prefers_cluster(const Traits& traits, const Problem& problem) {
  constexpr std::int64_t kBytesOfMultiprocessor = 112 << 10;
  constexpr std::int64_t kVeryLong = 1 << 17;
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t min_cols = element == 2 ? 32768 : 24576;
  if (problem.cols < min_cols || problem.cols > kClusterMaxCols) return false;
  if (problem.k > problem.cols / (element == 2 ? 32 : 16)) return false;
  // A block that keeps its row can write the whole of it, and sorts a few results by itself.
  const bool writes_rows = problem.form == Form::dense || problem.form == Form::mask;
  const bool sorts = problem.order == Order::by_value && problem.k <= kBlockMaxSorted && element < 8;
  const bool in_registers = element == 2 && block_layout(problem, 1).keeps_candidates;
  if ((writes_rows || sorts || in_registers) && prefers_block(traits, problem)) return false;
  if (problem.cols >= kVeryLong && problem.k <= problem.cols / (element == 2 ? 128 : 64)) {
    return problem.rows >= traits.multiprocessors / 4 - 1;
  }
  return problem.rows >= traits.multiprocessors / 2 - 2 &&
         problem.rows >= kBytesOfMultiprocessor * traits.multiprocessors / (problem.cols * element);
}

/// True if cuda_radix is the fastest: of many rows that several blocks would have to share, a large share is selected.
/// Measured, times the floor, cuda_radix and cuda_block: f32, 4096 rows of 65536, k 16384: 2.50, 2.90; k 6000: 2.83,
/// 3.05; 2684 of 100000, k 25000: 2.45, 4.11; 1531 of 175302, k 81559: 2.19, 4.24; 5131 of 58243, k 2918: 3.04, 2.47;
/// bf16, 4096 of 65536, k 16384: 3.10, 2.83; 2684 of 100000, k 25000: 3.09, 3.68.
bool prefers_radix(const Traits& traits, const Problem& problem) {
  constexpr std::int64_t kMinShare = 8;
  const std::size_t element = size_of(problem.dtype);
  const std::int64_t min_cols = element == 2 ? 80000 : 50000;
  return element <= 4 && problem.rows >= std::int64_t{2} * traits.multiprocessors && problem.cols >= min_cols &&
         problem.k >= problem.cols / kMinShare;
}

/// True if cuda_filter is the fastest: there are many rows, and a small share of each is selected.
bool prefers_filter(const Traits& traits, const Problem& problem) {
  constexpr std::int64_t kMinCols = 2048;
  constexpr std::int64_t kMaxK = 2048;                   // the list of candidates must leave room for other warps
  constexpr std::int64_t kMinRowsPerMultiprocessor = 8;  // with fewer, too few copies are in flight
  if (problem.cols < kMinCols) return false;
  if (problem.k > std::min(kMaxK, problem.cols / (problem.cols < 4096 ? 10 : 8))) return false;
  if (problem.rows < kMinRowsPerMultiprocessor * traits.multiprocessors) return false;
  // Of many results cuda_cluster needs fewer instructions, but many rows of 32 bits are shared evenly by warps.
  // Measured, times the floor, cuda_filter and cuda_cluster: f32, 4096 rows of 65536, k 1024: 1.23, 1.41; k 2048: 1.41,
  // 1.52; 1497 rows of 45056, k 1627: 2.35, 1.70; bf16, 4096 rows of 65536, k 512: 1.52, 1.46; k 2048: 3.28, 2.34.
  const bool has_16_bits = size_of(problem.dtype) == 2;
  const std::int64_t most_of_32_bits = problem.rows >= std::int64_t{24} * traits.multiprocessors ? kMaxK : 1024;
  const std::int64_t most = has_16_bits ? 256 : most_of_32_bits;
  if (prefers_cluster(traits, problem) && problem.k > most) return false;
  const FilterLaunch config = filter_launch(problem.dtype, problem.k, traits.shared_bytes_per_block);
  if (config.blocks_per_multiprocessor < 2) return false;
  if (!prefers_block(traits, problem)) return true;
  // A warp learns its threshold from row to row. That pays if it has many aligned rows; cuda_block needs no other rows.
  // Measured, times the floor, cuda_filter against cuda_block: f32, 65536x4096, k 64: 1.13, 1.57; k 512: 1.25, 1.82;
  // 32768x16384, k 256: 1.08, 1.55; f16, 65536x8192, k 64: 1.19, 1.98. With 8 rows for each warp, f32, 22369x3000, k 5:
  // 1.55, 1.61. If k is small, a warp needs fewer rows: f32, 12707x12368, k 395: 1.21, 1.70; bf16, 13938x22160, k 127:
  // 1.24, 1.74; f64, 5116x7483, k 53: 1.55, 3.05. Else: bf16, 19543x9280, k 1125: 3.80, 2.56. With two rows each, data
  // that misleads costs too much: f32, 4096x16384, k 1024, normal data 2.0, two humps 4.0.
  constexpr std::int64_t kManyRowsPerWarp = 10;
  constexpr std::int64_t kFewRowsPerWarp = 5;
  constexpr std::int64_t kMaxDenseCols =
      8192;  // longer dense rows and masks are written by a warp as fast as by a block
  const bool writes_rows = problem.form == Form::dense || problem.form == Form::mask;
  const std::int64_t warps = config.blocks_per_multiprocessor * kFilterWarpsPerBlock * traits.multiprocessors;
  const bool small_k = has_16_bits ? problem.cols >= 8192 && problem.k <= problem.cols / 64
                                   : problem.cols >= 6144 && problem.k <= problem.cols / 16;
  const bool enough_rows = problem.rows >= (small_k ? kFewRowsPerWarp : kManyRowsPerWarp) * warps &&
                           (small_k || problem.k <= problem.cols / (has_16_bits ? 16 : 8));
  return has_aligned_rows(problem) && enough_rows && !(writes_rows && problem.cols <= kMaxDenseCols);
}

/// cuda_cluster also takes longer rows than cuda_block, if it has room for a list of all candidates.
bool has_small_share(const Problem& problem) {
  constexpr std::int64_t kMaxListed = 4096;
  return problem.k <= std::min(kMaxListed, problem.cols / 8);
}

/// Picks the family of general rows, which some families do not take.
void pick_general_family(const Traits& traits, Plan& plan) {
  const Problem& problem = plan.problem;
  const auto takes = [&](Family family) { return plan_family(traits, family, false, plan); };
  const bool planned = core::bisects(problem)
                           ? takes(Family::cuda_scan)
                           : takes(Family::cuda_tournament) || takes(Family::cuda_warp) ||
                                 (prefers_cluster(traits, problem) && takes(Family::cuda_cluster)) ||
                                 takes(Family::cuda_block) || (has_small_share(problem) && takes(Family::cuda_cluster));
  if (!planned) takes(Family::cuda_radix);
}

/// Picks the family: the first, in this order, that takes the problem and is preferred for it.
void pick_family(const Traits& traits, Plan& plan) {
  const Problem& problem = plan.problem;
  const auto takes = [&](Family family) { return plan_family(traits, family, false, plan); };
  if (core::is_general(problem)) return pick_general_family(traits, plan);
  if (core::bisects(problem)) {
    const bool planned =
        core::makes_passes(problem)
            ? takes(Family::cuda_warp)
            : (prefers_tournament(problem) && takes(Family::cuda_tournament)) || takes(Family::cuda_warp) ||
                  (prefers_cluster(traits, problem) && takes(Family::cuda_cluster)) || takes(Family::cuda_block) ||
                  (has_small_share(problem) && takes(Family::cuda_cluster));
    if (!planned) takes(Family::cuda_scan);
    return;
  }
  const bool planned = (prefers_tournament(problem) && takes(Family::cuda_tournament)) || takes(Family::cuda_warp) ||
                       (prefers_filter(traits, problem) && takes(Family::cuda_filter)) ||
                       (prefers_cluster(traits, problem) && takes(Family::cuda_cluster)) ||
                       (prefers_radix(traits, problem) && takes(Family::cuda_radix)) || takes(Family::cuda_block) ||
                       (has_small_share(problem) && takes(Family::cuda_cluster));
  if (!planned) takes(Family::cuda_radix);
}

/// Plans with the family that the caller wants.
Status plan_wanted(const Traits& traits, Family wanted, Plan& plan) {
  if (Status status = check_search(wanted, plan.problem, "family"); !status.ok()) return status;
  return plan_family(traits, wanted, true, plan) ? Status{} : beyond_limits(wanted, plan.problem);
}

}  // namespace

Status make_plan(const Problem& problem, const Traits& traits, std::optional<Family> wanted, Plan& plan) noexcept {
  if (traits.multiprocessors < 1 || traits.shared_bytes_per_block < std::int64_t{48} * 1024 ||
      traits.compute_capability < 80) {
    return core::status(
        StatusCode::invalid_argument,
        "traits have compute_capability %d, %d multiprocessors and %lld shared_bytes_per_block; accepted: "
        "80 or more, 1 or more, 49152 or more",
        traits.compute_capability, traits.multiprocessors, static_cast<long long>(traits.shared_bytes_per_block));
  }
  const std::int64_t chunk_rows = is_gathered(problem) ? chunk_rows_of(problem) : 0;
  if (Status status = check_general(problem); !status.ok()) return status;
  Plan made{.problem = chunk_rows > 0 ? core::tight(problem, chunk_rows) : problem};
  Traits usable = traits;
  if (core::is_general(problem)) usable.shared_bytes_per_block -= kGeneralRowBytes;
  if (!wanted) {
    pick_family(usable, made);
  } else if (Status status = plan_wanted(usable, *wanted, made); !status.ok()) {
    return status;
  }
  made.problem = problem;
  made.chunk_rows = chunk_rows;
  made.workspace_bytes = workspace_of(made).bytes;
  if (Status status = core::check_workspace(problem, made.workspace_bytes); !status.ok()) return status;
  plan = made;
  return {};
}

}  // namespace rtopk::cuda
