// Which CUDA family runs a problem, and with which numbers. Host code alone: a plan can be made without a GPU.
#include <algorithm>

#include "backend.hpp"
#include "block_shape.hpp"
#include "cluster_shape.hpp"
#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "filter_shape.hpp"
#include "gather_shape.hpp"
#include "radix_shape.hpp"
#include "scan_shape.hpp"
#include "tournament_shape.hpp"
#include "warp_shape.hpp"
#include "workspace.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::int64_t kMostBlocks = 0x7fffffff;
constexpr std::int64_t kMaxRowsPerBlock = 0x7fffffff;
constexpr std::size_t kMaxSharedBytes = std::size_t{1} << 20;  // of a block: several times what any GPU has

constexpr std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool bisects(const Problem& problem) {
  return problem.max_iter > 0 || problem.epsilon > 0 || problem.search == Search::bisection;
}

/// Workers take rows in runs: long enough that they can learn from the rows before and that copies run ahead, short enough
/// that the last ones do not leave the device idle.
std::int64_t run_length(std::int64_t units, std::int64_t workers, std::int64_t longest) {
  std::int64_t length = std::clamp(units / workers, std::int64_t{1}, longest);
  while (quotient_up(units, length) > kMostBlocks && length < kMostTilesPerWarp) length *= 2;
  return length;
}

/// As run_length: about 20 warps find room on a multiprocessor. Measured.
std::int64_t tiles_per_warp(std::int64_t tiles, std::int64_t multiprocessors) {
  const std::int64_t of_each = tiles / multiprocessors;
  const std::int64_t fewest =
      quotient_up(tiles, kMostBlocks);  // at four warps to a block, far more than is ever needed
  return std::max(fewest, std::int64_t{of_each >= 400 ? 4 : of_each >= 100 ? 2 : 1});
}

template <class Shape>
std::int64_t warp_shared_bytes(const Problem& problem) {
  return static_cast<std::int64_t>(Shape::shared_bytes(problem.k, problem.order == Order::by_value));
}

/// A warp, or a part of one, for each row.
bool plan_warp(const Traits& traits, Plan& plan) {
  const Problem& problem = plan.problem;
  return core::with_element_type(problem.dtype, [&]<class T>(T*) {
    return for_warp_variants<T>([&]<int G, int R>() {
      using Shape = WarpShape<T, G, R>;
      if (problem.cols > Shape::kCols || warp_shared_bytes<Shape>(problem) > traits.shared_bytes_per_block)
        return false;
      // Lanes list their results one after the other, and sort what each of them has: where there are many, 8 lanes of 32 elements
      // are quicker (256 columns, bf16, k 128: 1.19 and 1.42 times the floor; k 32: 1.63 and 1.47).
      constexpr std::int64_t kMostResultsPerLane = 16;
      const bool many = problem.k > kMostResultsPerLane * G || problem.form == Form::dense ||
                        problem.form == Form::mask || problem.order == Order::by_value;
      if (G == 4 && R == 64 && many) return false;
      const std::int64_t tiles = std::max(quotient_up(problem.rows, Shape::kRows), std::int64_t{1});
      const std::int64_t run = tiles_per_warp(tiles, traits.multiprocessors);
      if (quotient_up(tiles, run * kWarpsPerBlock) > kMostBlocks) return false;
      plan.family = Family::cuda_warp;
      plan.lanes_per_row = G;
      plan.elements_per_lane = R;
      plan.threads = 32 * kWarpsPerBlock;
      plan.shared_bytes = static_cast<std::size_t>(warp_shared_bytes<Shape>(problem));
      plan.rows_per_block = run * kWarpsPerBlock * Shape::kRows;
      plan.blocks = quotient_up(tiles, run * kWarpsPerBlock);
      return true;
    });
  });
}

/// The same for small k: no search.
bool plan_tournament(const Traits& traits, Plan& plan) {
  const Problem& problem = plan.problem;
  if (problem.k > kTournamentMostK) return false;
  return core::with_element_type(problem.dtype, [&]<class T>(T*) {
    return for_tournament_shapes<T>([&]<int G, int R>() {
      // Copies run ahead in a run, but in the end long runs leave the device idle: three tiles were best of 1 to 16, and one
      // where there are few.
      constexpr std::int64_t kWarpsPerMultiprocessor = 160;
      constexpr std::int64_t kLongestRun = 3;
      using Shape = TournamentShape<T, G, R>;
      const std::int64_t shared_bytes = Shape::shared_bytes(tournament_list(problem.k));
      if (problem.cols > Shape::kCols || shared_bytes > traits.shared_bytes_per_block) return false;
      const std::int64_t tiles = std::max(quotient_up(problem.rows, Shape::kRows), std::int64_t{1});
      const std::int64_t run = run_length(tiles, kWarpsPerMultiprocessor * traits.multiprocessors, kLongestRun);
      if (quotient_up(tiles, run * kTournamentWarps) > kMostBlocks) return false;
      plan.family = Family::cuda_tournament;
      plan.lanes_per_row = G;
      plan.elements_per_lane = R;
      plan.threads = 32 * kTournamentWarps;
      plan.shared_bytes = static_cast<std::size_t>(shared_bytes);
      plan.rows_per_block = run * kTournamentWarps * Shape::kRows;
      plan.blocks = quotient_up(tiles, run * kTournamentWarps);
      return true;
    });
  });
}

/// Threads of cuda_block's block for rows of `cols`, and its shared memory; 0 if they are too long for this device.
struct BlockNumbers {
  std::int32_t threads = 0;
  std::size_t shared_bytes = 0;
  std::int32_t blocks_per_multiprocessor = 1;
  std::int64_t cols = 0;  ///< The longest row.
};

BlockNumbers block_numbers(DType dtype, std::int64_t cols, std::int64_t k, std::int64_t shared_bytes_per_block) {
  BlockNumbers numbers;
  core::with_element_type(dtype, [&]<class T>(T*) {
    for_block_variants([&]<int W>() {
      using Shape = BlockShape<T, W>;
      if (cols > Shape::kCols || Shape::shared_bytes(k) > shared_bytes_per_block) return false;
      numbers = {Shape::kThreads, static_cast<std::size_t>(Shape::shared_bytes(k)), Shape::kBlocksPerMultiprocessor,
                 Shape::kCols};
      return true;
    });
  });
  return numbers;
}

/// A block for each row.
bool plan_block(const Traits& traits, Plan& plan) {
  constexpr std::int64_t kLongestRun = 16;
  const Problem& problem = plan.problem;
  const BlockNumbers numbers = block_numbers(problem.dtype, problem.cols, problem.k, traits.shared_bytes_per_block);
  if (numbers.threads == 0) return false;
  const std::int64_t workers = std::int64_t{numbers.blocks_per_multiprocessor} * traits.multiprocessors;
  const std::int64_t run = run_length(problem.rows, workers, kLongestRun);
  if (quotient_up(problem.rows, run) > kMostBlocks) return false;
  plan.family = Family::cuda_block;
  plan.threads = numbers.threads;
  plan.lanes_per_row = numbers.threads;
  plan.shared_bytes = numbers.shared_bytes;
  plan.rows_per_block = run;
  plan.blocks = std::max(quotient_up(problem.rows, run), std::int64_t{1});
  return true;
}

/// The shared memory of cuda_cluster's block.
std::int64_t cluster_shared_bytes(const Problem& problem, std::int64_t parts) {
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t part = cluster_part_cols(problem.cols, parts, element);
  const std::int64_t capacity = cluster_sample(problem.cols, problem.k, element).capacity;
  std::int64_t bytes = 0;
  core::with_element_type(problem.dtype, [&]<class T>(T*) { bytes = ClusterShape<T>::shared_bytes(capacity, part); });
  return bytes;
}

/// A cluster of blocks for each row of which little is selected. Before sm_90 a cluster is one block.
bool plan_cluster(const Traits& traits, Plan& plan) {
  constexpr std::int64_t kReservedBytes = 1024;  // of each block, for the system
  constexpr std::int64_t kLeastPartCols = 4096;
  // A longer row by itself should be done sooner by cuda_radix, with blocks on all multiprocessors. Not measured yet.
  constexpr std::int64_t kMostPartBytesOfFew = 1 << 20;
  const Problem& problem = plan.problem;
  // Measured, 1342 rows of 50000, k 5000: cuda_cluster 6.0 times the floor, cuda_radix 4.3.
  constexpr std::int64_t kMostK = 4096;
  if (problem.cols > kClusterMostCols || problem.k > std::min(kMostK, problem.cols / 8)) return false;
  const std::int64_t rows = std::max(problem.rows, std::int64_t{1});
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  // As few blocks for a row as keep two on every multiprocessor nearly all the time, with which enough is on its way; if there
  // are none such, those that come nearest. More have to be clearly better: blocks that share a row wait for each other.
  constexpr std::int64_t kBlocks = 2;
  constexpr double kClearly = 1.15;
  double best = 0;
  for (std::int64_t parts = 1; parts <= (traits.compute_capability >= 90 ? kClusterMostParts : 1); parts *= 2) {
    const std::int64_t part = cluster_part_cols(problem.cols, parts, element);
    const std::int64_t bytes = cluster_shared_bytes(problem, parts);
    if (parts > 1 && part < kLeastPartCols) break;
    if (part > kClusterMostPartCols || bytes > traits.shared_bytes_per_block || rows > kMostBlocks / parts) continue;
    if (part * element > kMostPartBytesOfFew && 4 * rows * parts < traits.multiprocessors) continue;
    const std::int64_t places =
        std::min(kBlocks, (traits.shared_bytes_per_block + kReservedBytes) / (bytes + kReservedBytes));
    const std::int64_t of_each = std::max(kBlocks, quotient_up(rows * parts, traits.multiprocessors));
    const double busy =
        static_cast<double>(rows * parts * places) / static_cast<double>(kBlocks * of_each * traits.multiprocessors);
    if (busy < kClearly * best) continue;
    best = busy;
    plan.family = Family::cuda_cluster;
    plan.parts = parts;
    plan.threads = kClusterThreads;
    plan.lanes_per_row = static_cast<std::int32_t>(parts) * kClusterThreads;
    plan.shared_bytes = static_cast<std::size_t>(bytes);
    plan.blocks = rows * parts;
    if (7 * busy >= 6) break;
  }
  return best > 0;
}

/// The shared memory of cuda_filter's block, and how many of them find room.
struct FilterNumbers {
  std::size_t shared_bytes = 0;
  std::int64_t blocks_per_multiprocessor = 0;
};

FilterNumbers filter_numbers(DType dtype, std::int64_t k, std::int64_t shared_bytes_per_block) {
  constexpr std::int64_t kReservedBytes = 1024;  // of each block, for the system
  FilterNumbers numbers;
  core::with_element_type(dtype, [&]<class T>(T*) {
    using Shape = FilterShape<T>;
    const std::int64_t bytes = Shape::shared_bytes(k);
    numbers.shared_bytes = static_cast<std::size_t>(bytes);
    numbers.blocks_per_multiprocessor = std::min(std::int64_t{Shape::blocks_per_multiprocessor(k)},
                                                 (shared_bytes_per_block + kReservedBytes) / (bytes + kReservedBytes));
  });
  return numbers;
}

/// A warp for each row, where rows are many and little of them is selected.
bool plan_filter(const Traits& traits, Plan& plan) {
  constexpr std::int64_t kLeastCols = 2048;
  constexpr std::int64_t kMostBlockCols = 8192;  // of dense rows and masks: cuda_block writes them well up to here
  constexpr std::int64_t kMostK = 2048;          // the list of candidates must leave room for other warps
  constexpr std::int64_t kLeastRowsPerMultiprocessor = 8;  // with fewer, too little is on its way at a time
  const Problem& problem = plan.problem;
  const bool writes_rows = problem.form == Form::dense || problem.form == Form::mask;
  if (writes_rows && problem.cols <= kMostBlockCols &&
      block_numbers(problem.dtype, problem.cols, problem.k, traits.shared_bytes_per_block).threads != 0) {
    return false;
  }
  if (problem.cols < kLeastCols || problem.cols > kMostFilteredCols || problem.k > kMostK) return false;
  // Measured, f32, times the floor, cuda_filter and cuda_block: 2048 columns, k 64: 1.37 and 1.67, 256: 1.58 and 1.52; 4096,
  // 512: 1.26 and 1.42; 8192, 2048: 1.77 and 1.29.
  if (problem.k > problem.cols / (problem.cols < 4096 ? 10 : 8)) return false;
  if (problem.rows < kLeastRowsPerMultiprocessor * traits.multiprocessors) return false;
  const FilterNumbers numbers = filter_numbers(problem.dtype, problem.k, traits.shared_bytes_per_block);
  if (numbers.blocks_per_multiprocessor < 2) return false;
  plan.family = Family::cuda_filter;
  plan.threads = 32 * kFilterWarpsPerBlock;
  plan.lanes_per_row = 32;
  plan.shared_bytes = numbers.shared_bytes;
  // As many warps as find room, but none with one row more than most have.
  const std::int64_t warps = numbers.blocks_per_multiprocessor * kFilterWarpsPerBlock * traits.multiprocessors;
  plan.rows_per_block = quotient_up(problem.rows, warps) * kFilterWarpsPerBlock;
  plan.blocks = quotient_up(problem.rows, plan.rows_per_block);
  return true;
}

template <int kBytes>
void plan_long(const Traits& traits, Plan& plan) {
  const Problem& problem = plan.problem;
  if (bisects(problem)) {
    const ScanNumbers numbers = scan_numbers<kBytes>(problem.rows, problem.cols);
    plan.family = Family::cuda_scan;
    plan.threads = numbers.threads;
    plan.blocks = numbers.blocks;
    plan.shared_bytes = numbers.shared_bytes;
  } else {
    const RadixNumbers numbers = radix_numbers<kBytes>(
        problem.rows, problem.cols, radix_parts<kBytes>(problem.rows, problem.cols, traits.multiprocessors),
        traits.multiprocessors);
    plan.family = Family::cuda_radix;
    plan.parts = numbers.parts;
    plan.threads = numbers.threads;
    plan.blocks = numbers.blocks;
    plan.shared_bytes = numbers.shared_bytes;
  }
  plan.lanes_per_row = plan.threads;
}

/// The families that need no more than any device has: the paper's search, and the digit by digit one.
void plan_any_length(const Traits& traits, Plan& plan) {
  switch (size_of(plan.problem.dtype)) {
    case 2: return plan_long<2>(traits, plan);
    case 4: return plan_long<4>(traits, plan);
    default: return plan_long<8>(traits, plan);
  }
}

/// Sets the family and its numbers for the plan's problem.
void pick_family(const Traits& traits, Plan& plan) {
  const bool exact = !bisects(plan.problem);
  const bool planned = (exact && plan_tournament(traits, plan)) || plan_warp(traits, plan) ||
                       (exact && (plan_filter(traits, plan) || plan_block(traits, plan) || plan_cluster(traits, plan)));
  if (!planned) plan_any_length(traits, plan);
}

/// Whether blocks of `warps` warps that need `shared_bytes` can take the plan's rows in tiles of this shape.
template <class Shape>
bool tiles_fit(const Plan& plan, std::int64_t warps, std::int64_t shared_bytes) {
  const std::int64_t unit = warps * Shape::kRows;
  return plan.problem.cols <= Shape::kCols && plan.threads == 32 * warps &&
         static_cast<std::int64_t>(plan.shared_bytes) >= shared_bytes && plan.rows_per_block % unit == 0 &&
         plan.rows_per_block / unit <= kMostTilesPerWarp;
}

/// Whether there is a kernel of cuda_warp or cuda_tournament for the plan's tiles.
bool tiles_are_known(const Plan& plan) {
  const Problem& problem = plan.problem;
  bool known = false;
  core::with_element_type(problem.dtype, [&]<class T>(T*) {
    if (plan.family == Family::cuda_warp) {
      for_warp_variants<T>([&]<int G, int R>() {
        using Shape = WarpShape<T, G, R>;
        if (plan.lanes_per_row != G || plan.elements_per_lane != R) return false;
        known = tiles_fit<Shape>(plan, kWarpsPerBlock, warp_shared_bytes<Shape>(problem));
        return true;
      });
    } else {
      for_tournament_shapes<T>([&]<int G, int R>() {
        using Shape = TournamentShape<T, G, R>;
        if (plan.lanes_per_row != G || plan.elements_per_lane != R) return false;
        known = tiles_fit<Shape>(plan, kTournamentWarps, Shape::shared_bytes(tournament_list(problem.k)));
        return true;
      });
    }
  });
  return known;
}

/// Whether rows that must be gathered are, and no others.
Status check_chunk(const Plan& plan) {
  const std::int64_t rows = std::max(plan.problem.rows, std::int64_t{1});
  if (!is_gathered(plan.problem)) {
    return plan.chunk_rows == 0 ? Status{} : core::invalid("plan.chunk_rows", plan.chunk_rows, "0 for these strides");
  }
  if (plan.chunk_rows >= 1 && plan.chunk_rows <= std::min(rows, kMaxChunkRows)) return {};
  return core::status(StatusCode::invalid_argument, "plan.chunk_rows is %lld; accepted for these strides: 1 to %lld",
                      static_cast<long long>(plan.chunk_rows), static_cast<long long>(std::min(rows, kMaxChunkRows)));
}

/// Whether the numbers of a plan fit its family; the kernels trust them.
Status check_numbers(const Plan& plan) {
  const Problem& problem = plan.problem;
  const std::int64_t rows = std::max(problem.rows, std::int64_t{1});
  if (plan.blocks < 1 || plan.blocks > kMostBlocks) return core::invalid("plan.blocks", plan.blocks, "1 to 2147483647");
  if (plan.rows_per_block < 1) return core::invalid("plan.rows_per_block", plan.rows_per_block, "1 or more");
  // A launch keeps 32 bits of it. The device refuses what it does not have.
  if (plan.shared_bytes > kMaxSharedBytes) {
    return core::status(StatusCode::invalid_argument, "plan.shared_bytes is %zu; accepted: at most %zu",
                        plan.shared_bytes, kMaxSharedBytes);
  }
  if (plan.family == Family::cuda_warp || plan.family == Family::cuda_tournament) {
    if (plan.family == Family::cuda_tournament && problem.k > kTournamentMostK) {
      return core::invalid("plan.problem.k", problem.k, "1 to 8 for cuda_tournament");
    }
    if (!tiles_are_known(plan)) {
      return core::invalid("plan.elements_per_lane", plan.elements_per_lane, "the numbers that make_plan gave");
    }
    if (plan.blocks < quotient_up(rows, plan.rows_per_block))
      return core::invalid("plan.blocks", plan.blocks, "enough for all rows");
    return {};
  }
  if (plan.family == Family::cuda_filter) {
    if (problem.cols > kMostFilteredCols)
      return core::invalid("plan.problem.cols", problem.cols, "fewer for cuda_filter");
    if (plan.threads != 32 * kFilterWarpsPerBlock) return core::invalid("plan.threads", plan.threads, "64");
    if (plan.shared_bytes < filter_numbers(problem.dtype, problem.k, 0).shared_bytes) {
      return core::invalid("plan.shared_bytes", static_cast<std::int64_t>(plan.shared_bytes),
                           "the number that make_plan gave");
    }
    return {};
  }
  if (plan.family == Family::cuda_cluster) {
    const bool power = plan.parts >= 1 && plan.parts <= kClusterMostParts && (plan.parts & (plan.parts - 1)) == 0;
    if (!power) return core::invalid("plan.parts", plan.parts, "1, 2, 4 or 8");
    const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
    if (problem.cols > kClusterMostCols ||
        cluster_part_cols(problem.cols, plan.parts, element) > kClusterMostPartCols) {
      return core::invalid("plan.problem.cols", problem.cols, "fewer for cuda_cluster");
    }
    if (plan.threads != kClusterThreads) return core::invalid("plan.threads", plan.threads, "256");
    if (plan.blocks != rows * plan.parts) return core::invalid("plan.blocks", plan.blocks, "plan.parts for each row");
    if (static_cast<std::int64_t>(plan.shared_bytes) < cluster_shared_bytes(problem, plan.parts)) {
      return core::invalid("plan.shared_bytes", static_cast<std::int64_t>(plan.shared_bytes),
                           "the number that make_plan gave");
    }
    return {};
  }
  if (plan.family == Family::cuda_block) {
    // The kernel multiplies it with the number of a block.
    if (plan.rows_per_block > kMaxRowsPerBlock) {
      return core::invalid("plan.rows_per_block", plan.rows_per_block, "1 to 2147483647 for cuda_block");
    }
    const BlockNumbers most = block_numbers(problem.dtype, problem.cols, problem.k, std::int64_t{1} << 30);
    if (plan.threads < most.threads || plan.threads > 512 || (plan.threads & (plan.threads - 1)) != 0 ||
        most.threads == 0) {
      return core::invalid("plan.threads", plan.threads, "the number that make_plan gave");
    }
    const BlockNumbers numbers =
        block_numbers(problem.dtype, most.cols / most.threads * plan.threads, problem.k, std::int64_t{1} << 30);
    if (plan.shared_bytes < numbers.shared_bytes) {
      return core::invalid("plan.shared_bytes", static_cast<std::int64_t>(plan.shared_bytes),
                           "the number that make_plan gave");
    }
    if (plan.blocks < quotient_up(rows, plan.rows_per_block)) {
      return core::invalid("plan.blocks", plan.blocks, "enough for all rows");
    }
    return {};
  }
  if (plan.threads < 32 || plan.threads > 1024 || plan.threads % 32 != 0) {
    return core::invalid("plan.threads", plan.threads, "a multiple of 32 up to 1024");
  }
  if (plan.family == Family::cuda_radix && (plan.parts < 1 || plan.parts > plan.blocks)) {
    return core::invalid("plan.parts", plan.parts, "1 to plan.blocks");
  }
  if (plan.family == Family::cuda_radix && plan.parts < quotient_up(problem.cols, kRadixMostPart)) {
    return core::invalid("plan.parts", plan.parts, "one for every 2^30 columns");
  }
  return {};
}

}  // namespace

Status make_plan(const Problem& problem, const Traits& traits, Plan& plan) noexcept {
  if (traits.multiprocessors < 1 || traits.shared_bytes_per_block < 48 * 1024 || traits.compute_capability < 80) {
    return core::status(
        StatusCode::invalid_argument,
        "traits have compute_capability %d, %d multiprocessors and %lld shared_bytes_per_block; accepted: "
        "80 or more, 1 or more, 49152 or more",
        traits.compute_capability, traits.multiprocessors, static_cast<long long>(traits.shared_bytes_per_block));
  }
  const std::int64_t chunk_rows = is_gathered(problem) ? chunk_rows_of(problem) : 0;
  Plan made{.problem = chunk_rows > 0 ? core::tight(problem, chunk_rows) : problem};
  pick_family(traits, made);
  made.problem = problem;
  made.chunk_rows = chunk_rows;
  made.workspace_bytes = workspace_of(made).bytes;
  if (Status status = core::check_workspace(problem, made.workspace_bytes); !status.ok()) return status;
  plan = made;
  return {};
}

Status check_plan(const Plan& plan) noexcept {
  const bool exact = !bisects(plan.problem);
  const bool suits = plan.family == Family::cuda_warp || (plan.family == Family::cuda_scan && !exact) ||
                     (exact && (plan.family == Family::cuda_tournament || plan.family == Family::cuda_block ||
                                plan.family == Family::cuda_cluster || plan.family == Family::cuda_filter ||
                                plan.family == Family::cuda_radix));
  if (!suits) {
    return core::status(StatusCode::invalid_argument, "plan.family is %s; accepted for this problem: %s",
                        name(plan.family),
                        exact ? "cuda_warp, cuda_tournament, cuda_block, cuda_filter, cuda_cluster or cuda_radix"
                              : "cuda_warp or cuda_scan");
  }
  if (Status status = check_chunk(plan); !status.ok()) return status;
  const Plan as_run = plan.chunk_rows > 0 ? chunk_plan(plan, plan.chunk_rows) : plan;
  if (Status status = check_numbers(as_run); !status.ok()) return status;
  const std::size_t needed = workspace_of(plan).bytes;
  if (Status status = core::check_workspace(plan.problem, needed); !status.ok()) return status;
  if (plan.workspace_bytes < needed) {
    return core::status(StatusCode::invalid_argument, "plan.workspace_bytes is %zu; accepted: at least %zu",
                        plan.workspace_bytes, needed);
  }
  return {};
}

}  // namespace rtopk::cuda
