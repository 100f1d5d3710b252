// The configs of the CUDA families: what each launches for a problem, and the problems that it takes.
#include "plan/select/cuda_configs.hpp"

#include <algorithm>

#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "core/rows.hpp"
#include "core/sizes.hpp"
#include "plan/cuda.hpp"
#include "plan/select/tuning_bracket.hpp"
#include "plan/select/tuning_cluster.hpp"
#include "plan/select/tuning_filter.hpp"
#include "plan/select/tuning_radix.hpp"
#include "plan/select/tuning_scan.hpp"
#include "plan/select/tuning_tournament.hpp"
#include "plan/select/tuning_warp.hpp"
#include "plan/select/workspace.hpp"

namespace rtopk::cuda {
namespace {

/// Units (tiles or rows) in a worker's batch: enough that a row learns from those before it and that copies run ahead,
/// few enough that the last batches do not leave the device idle.
std::int64_t batch_length(std::int64_t units, std::int64_t workers, std::int64_t longest) {
  std::int64_t length = std::clamp(units / workers, std::int64_t{1}, longest);
  while (core::ceil_div(units, length) > kMaxGridBlocks && length < kMaxTilesPerWarp) length *= 2;
  return length;
}

/// Tiles in a warp's batch. About 20 warps fit on a multiprocessor. Measured.
std::int64_t tiles_per_warp(std::int64_t tiles, std::int64_t multiprocessors) {
  const std::int64_t of_each = tiles / multiprocessors;
  const std::int64_t fewest =
      core::ceil_div(tiles, kMaxGridBlocks);  // at four warps a block, far more than is ever needed
  return std::max(fewest, std::int64_t{of_each >= 400 ? 4 : of_each >= 100 ? 2 : 1});
}

template <class Config>
std::int64_t warp_shared_bytes(const Problem& problem) {
  return static_cast<std::int64_t>(Config::shared_bytes(problem.cols, problem.k, problem.order == Order::by_value));
}

/// Sets a config of cuda_warp for batches of this many tiles; false if it does not take the problem.
template <class Config, int G, int R>
bool set_warp_config(std::int64_t batch, std::int64_t max_shared_bytes, Plan& plan) {
  const Problem& problem = plan.problem;
  if (!Config::takes(problem.cols) || warp_shared_bytes<Config>(problem) > max_shared_bytes) return false;
  const std::int64_t tiles = std::max(core::ceil_div(problem.rows, std::int64_t{Config::kRows}), std::int64_t{1});
  const std::int64_t blocks = core::ceil_div(tiles, batch * kWarpsPerBlock);
  if (blocks > kMaxGridBlocks) return false;
  plan.family = Family::cuda_warp;
  plan.lanes_per_row = G;
  plan.elements_per_lane = R;
  plan.threads = 32 * kWarpsPerBlock;
  plan.shared_bytes = static_cast<std::size_t>(warp_shared_bytes<Config>(problem));
  plan.rows_per_block = batch * kWarpsPerBlock * Config::kRows;
  plan.blocks = blocks;
  return true;
}

/// Lanes list their results one after the other, and each sorts its own. With many results 8 lanes of 32 elements are
/// faster than 4 of 64 (256 columns, bf16, k 128: 1.19 against 1.42 times the floor; k 32: 1.63 against 1.47).
template <class T, int G, int R>
bool has_too_many_results(const Problem& problem) {
  constexpr std::int64_t kMaxResultsPerLane = 16;
  if (G != 4 || R * static_cast<int>(sizeof(T)) <= 64) return false;
  return problem.k > kMaxResultsPerLane * G || problem.form == Form::dense || problem.form == Form::mask ||
         problem.order == Order::by_value;
}

/// 16-bit rows at odd addresses that are longer are cuda_block's, if cuda_warp has no layout for them.
constexpr std::int64_t kMinColsOfBlock = 1024;

template <class T>
bool plan_unaligned_rows(const Traits& traits, Plan& plan) {
  return for_unaligned_variants<T>([&]<int G, int R>() {
    if (has_too_many_results<T, G, R>(plan.problem)) return false;
    const std::int64_t tiles = core::ceil_div(plan.problem.rows, std::int64_t{32 / G});
    return set_warp_config<UnalignedConfig<T, G, R>, G, R>(tiles_per_warp(tiles, traits.multiprocessors),
                                                           traits.shared_bytes_per_block, plan);
  });
}

template <class T>
bool plan_ragged_rows(const Traits& traits, Plan& plan) {
  return for_ragged_variants<T>([&]<int G, int R>() {
    const std::int64_t tiles = core::ceil_div(plan.problem.rows, std::int64_t{32 / G});
    return set_warp_config<RaggedConfig<T, G, R>, G, R>(tiles_per_warp(tiles, traits.multiprocessors),
                                                        traits.shared_bytes_per_block, plan);
  });
}

/// A warp, or some of its lanes, for each row. `wanted`: accept slow configs too.
bool plan_warp(const Traits& traits, bool wanted, Plan& plan) {
  const Problem& problem = plan.problem;
  return core::with_element_type(problem.dtype, [&]<class T>(T*) {
    if (core::is_general(problem)) return plan_ragged_rows<T>(traits, plan);
    const bool passes = core::makes_passes(problem);
    if (!passes && !has_aligned_rows(problem)) {
      if (plan_unaligned_rows<T>(traits, plan)) return true;
      const bool odd = sizeof(T) == 2 && (problem.cols | core::stride_of(problem)) % 2 != 0;
      // 16-bit rows of an odd pitch that are too long for that layout would be copied element by element. Measured,
      // bf16, masks, times the floor: 1947 columns 17.2; cuda_block, 2956 columns: 2.8.
      if (!wanted && odd && problem.cols > kMinColsOfBlock) return false;
    }
    return for_aligned_variants<T>([&]<int G, int R>() {
      if (passes && !AlignedConfig<T, G, R>::kBisects) return false;
      if (has_too_many_results<T, G, R>(problem)) return false;
      const std::int64_t tiles = core::ceil_div(problem.rows, std::int64_t{32 / G});
      return set_warp_config<AlignedConfig<T, G, R>, G, R>(tiles_per_warp(tiles, traits.multiprocessors),
                                                           traits.shared_bytes_per_block, plan);
    });
  });
}

/// The shared memory of a block of cuda_tournament for rows at any address.
template <class T, int K>
int unaligned_tournament_bytes(const Problem& problem) {
  int bytes = 0;
  for_unaligned_tournament_variants<T, K>([&]<int G, int R>() {
    using Config = UnalignedTournamentConfig<T, G, R>;
    if (!Config::takes(problem.cols)) return false;
    bytes = Config::shared_bytes(K, problem.cols, core::stride_of(problem));
    return true;
  });
  return bytes;
}

/// Calls `f.template operator()<G, R>(shared_bytes)` for the config of cuda_tournament that takes the problem; false if
/// none does, or if `f` is.
template <class T, class F>
bool with_tournament_config(const Problem& problem, F&& f) {
  if (problem.k > kTournamentMaxK) return false;
  return with_tournament_list(problem.k, [&]<int K>() {
    if (problem.cols > kTournamentMaxCols<T, K>) return false;
    const std::int64_t unaligned = unaligned_tournament_bytes<T, K>(problem);
    if (kTournamentReadsVectors<T> && has_aligned_rows(problem)) {
      return for_tournament_variants<T, K>([&]<int G, int R>() {
        using Config = TournamentConfig<T, G, R>;
        if (problem.cols > Config::kCols) return false;
        // The first row may be off alignment, which the launch will find.
        const auto bytes = std::int64_t{Config::shared_bytes(K, static_cast<int>(problem.cols))};
        return f.template operator()<G, R>(bytes, std::max(bytes, unaligned));
      });
    }
    return for_unaligned_tournament_variants<T, K>([&]<int G, int R>() {
      return UnalignedTournamentConfig<T, G, R>::takes(problem.cols) &&
             f.template operator()<G, R>(unaligned, unaligned);
    });
  });
}

/// The same for general rows. Dense rows and masks of them are cuda_warp's.
template <class T, class F>
bool with_uneven_tournament_config(const Problem& problem, F&& f) {
  if (problem.k > kTournamentMaxK || problem.form == Form::dense || problem.form == Form::mask) return false;
  return with_tournament_list(problem.k, [&]<int K>() {
    if (problem.cols > kTournamentMaxCols<T, K>) return false;
    return for_uneven_tournament_variants<T, K>([&]<int G, int R>() {
      using Config = UnevenTournamentConfig<T, G, R>;
      const auto bytes = std::int64_t{Config::shared_bytes(K, problem.cols)};
      return Config::takes(problem.cols) && f.template operator()<G, R>(bytes, bytes);
    });
  });
}

/// For small k, also a warp or some of its lanes for each row, but without a search.
bool plan_tournament(const Traits& traits, Plan& plan) {
  const Problem& problem = plan.problem;
  return core::with_element_type(problem.dtype, [&]<class T>(T*) {
    const auto set = [&]<int G, int R>(std::int64_t shared_bytes, std::int64_t most_bytes) {
      // In a batch copies run ahead, but long batches leave the device idle at the end. Of 1 to 16 tiles three were
      // best, and one if there are few tiles.
      constexpr std::int64_t kWarpsPerMultiprocessor = 160;
      constexpr std::int64_t kLongestBatch = 3;
      constexpr std::int64_t kRows = 32 / G;
      if (most_bytes > traits.shared_bytes_per_block) return false;
      const std::int64_t tiles = std::max(core::ceil_div(problem.rows, kRows), std::int64_t{1});
      const std::int64_t batch = batch_length(tiles, kWarpsPerMultiprocessor * traits.multiprocessors, kLongestBatch);
      if (core::ceil_div(tiles, batch * kTournamentWarps) > kMaxGridBlocks) return false;
      plan.family = Family::cuda_tournament;
      plan.lanes_per_row = G;
      plan.elements_per_lane = R;
      plan.threads = 32 * kTournamentWarps;
      plan.shared_bytes = static_cast<std::size_t>(shared_bytes);
      plan.rows_per_block = batch * kTournamentWarps * kRows;
      plan.blocks = core::ceil_div(tiles, batch * kTournamentWarps);
      return true;
    };
    return core::is_general(problem) ? with_uneven_tournament_config<T>(problem, set)
                                     : with_tournament_config<T>(problem, set);
  });
}

void set_block_config(const BlockLayout& layout, std::int64_t parts, Plan& plan) {
  plan.family = Family::cuda_block;
  plan.parts = parts;
  plan.threads = layout.threads;
  plan.lanes_per_row = static_cast<std::int32_t>(parts) * layout.threads;
  plan.elements_per_lane = 0;
  plan.shared_bytes = static_cast<std::size_t>(layout.shared_bytes);
  plan.rows_per_block = 1;
  plan.blocks = std::max(plan.problem.rows, std::int64_t{1}) * parts;
}

/// A block for each row, or several. `wanted`: accept slow configs too.
///
/// Few rows: one block, if it keeps the row and its candidates, and the row is not too long. Measured, times the
/// floor, 1 block and 4: f32, 64 rows of 32768, k 512: 1.95, 2.60; k 2048: 2.10, 2.61; 3 rows of 25322, k 123:
/// 2.36, 2.94; 30 rows of 37502, k 154: 1.63, 1.81; 9 rows of 48813, k 1849: 3.23, 2.65; bf16, 73 rows of 35278, k
/// 112: 1.42, 1.87; 5 rows of 40417, k 667: 2.95, 2.49; 64 rows of 32768, k 2048, whose candidates are not kept:
/// 3.29, 2.66. Else the fewest blocks that keep two on every multiprocessor nearly all the time, so that enough
/// copies are in flight; if no number does, the one that comes nearest. Many rows: the number of blocks with which
/// most bytes are kept at a time. More blocks must be clearly better, because blocks that share a row wait for each
/// other. Measured, times the floor, 4096 rows of 65536, f32, k 1024: 2 parts, 131 KB on a multiprocessor: 2.4; 4
/// parts, 197 KB: 2.1; 8 parts, 164 KB: 3.6.
bool plan_block(const Traits& traits, bool wanted, Plan& plan) {
  constexpr std::int64_t kBlocks = 2;
  constexpr std::int64_t kMaxColsOfOne = 40000;
  const std::int64_t min_part_cols = wanted ? 1 : 4096;
  const Problem& problem = plan.problem;
  const std::int64_t rows = std::max(problem.rows, std::int64_t{1});
  const bool keeps_many = rows >= traits.multiprocessors;
  const auto share_in_use = [&](std::int64_t blocks, std::int64_t places) {
    const std::int64_t at_a_time = places * traits.multiprocessors;
    return static_cast<double>(blocks) / static_cast<double>(core::ceil_div(blocks, at_a_time) * at_a_time);
  };
  double best = 0;
  bool planned = false;
  for (std::int64_t parts = 1; parts <= (traits.compute_capability >= 90 ? kMaxParts : 1); parts *= 2) {
    if (rows > kMaxGridBlocks / parts) break;
    const BlockLayout layout = block_layout(problem, parts);
    if (layout.chunks == 0 || (parts > 1 && problem.cols < min_part_cols * parts)) continue;
    if (layout.shared_bytes > traits.shared_bytes_per_block) continue;
    const std::int64_t places =
        (traits.shared_bytes_per_block + kReservedBytes) / (layout.shared_bytes + kReservedBytes);
    const std::int64_t of_each = std::max(kBlocks, core::ceil_div(rows * parts, traits.multiprocessors));
    const double busy = static_cast<double>(rows * parts * std::min(places, kBlocks)) /
                        static_cast<double>(kBlocks * of_each * traits.multiprocessors);
    const double score =
        keeps_many ? share_in_use(rows * parts, places) * static_cast<double>(places) / static_cast<double>(parts)
                   : busy;
    if (score < (keeps_many ? 1.3 : 1.15) * best) continue;
    best = score;
    planned = true;
    set_block_config(layout, parts, plan);
    const bool one_is_enough = parts == 1 && problem.cols <= kMaxColsOfOne && layout.keeps_candidates;
    if (!keeps_many && (7 * busy >= 6 || one_is_enough)) break;
  }
  return planned;
}

/// A block for each row, or several. Before sm_90 always one. `wanted`: accept slow configs too.
bool plan_cluster(const Traits& traits, bool wanted, Plan& plan) {
  constexpr std::int64_t kMinPartCols = 4096;
  // Of longer parts a multiprocessor has few at a time: each gets more threads.
  constexpr std::int64_t kLongPartCols = 98304;
  // cuda_radix, with blocks on all multiprocessors, should be faster for a few longer rows. Not measured yet.
  constexpr std::int64_t kMaxPartBytesOfFew = 1 << 20;
  const Problem& problem = plan.problem;
  const std::int64_t rows = std::max(problem.rows, std::int64_t{1});
  if (problem.cols > kClusterMaxCols || rows > kMaxGridBlocks) return false;
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const auto part_of = [&](std::int64_t parts) { return cluster_part_cols(problem.cols, parts, element); };
  // Up to two blocks for every multiprocessor: more would wait for each other. Measured, times the floor, 1, 2 and
  // 4 parts: 106 rows of 310656, f32, k 1400: 1.56, 1.46, 2.04; 247 of 98699, bf16, k 1120: 1.88, 2.47, 2.67. And
  // no more than leave a part a small share of results: 32 rows of 131072, f32, k 2048, 4 and 8 parts: 2.55, 3.47.
  constexpr std::int64_t kMaxShare = 16;
  std::int64_t parts = 1;
  while (traits.compute_capability >= 90 && parts < kMaxParts && part_of(2 * parts) >= kMinPartCols &&
         ((rows * parts <= traits.multiprocessors && problem.k <= part_of(2 * parts) / kMaxShare) ||
          part_of(parts) > kClusterMaxPartCols)) {
    parts *= 2;
  }
  const std::int64_t part = part_of(parts);
  if (part > kClusterMaxPartCols || rows > kMaxGridBlocks / parts) return false;
  if (!wanted && part * element > kMaxPartBytesOfFew && 4 * rows * parts < traits.multiprocessors) return false;

  const std::int64_t reserved = kReservedBytes + (core::is_general(problem) ? kGeneralRowBytes : 0);
  const std::int64_t shared_bytes = traits.shared_bytes_per_block + reserved;  // of a multiprocessor
  const auto fits = [&](int threads, std::int64_t blocks) {
    return blocks * (cluster_shared_bytes(problem, parts, threads) + reserved) <= shared_bytes;
  };
  const int threads = part > kLongPartCols || !fits(kClusterThreads, 2) ? kClusterMoreThreads : kClusterThreads;
  if (!fits(threads, 1)) return false;
  plan.family = Family::cuda_cluster;
  plan.parts = parts;
  plan.threads = threads;
  plan.lanes_per_row = static_cast<std::int32_t>(parts) * threads;
  plan.blocks = rows * parts;
  // A longer list where the room would stay empty: it is pruned less often. Not in clusters, of which fewer might then
  // fit at a time.
  const std::int64_t at_a_time = core::ceil_div(plan.blocks, std::int64_t{traits.multiprocessors});
  const std::int64_t room = parts > 1 ? 0 : (shared_bytes / at_a_time - reserved) / 16 * 16;
  plan.shared_bytes = static_cast<std::size_t>(std::max(room, cluster_shared_bytes(problem, parts, threads)));
  return true;
}

/// A warp for each row.
bool plan_filter(const Traits& traits, Plan& plan) {
  const Problem& problem = plan.problem;
  if (problem.cols > kMaxFilteredCols) return false;
  const FilterLaunch config = filter_launch(problem.dtype, problem.k, traits.shared_bytes_per_block);
  if (config.blocks_per_multiprocessor < 1) return false;
  plan.family = Family::cuda_filter;
  plan.threads = 32 * kFilterWarpsPerBlock;
  plan.lanes_per_row = 32;
  plan.shared_bytes = config.shared_bytes;
  // As many warps as fit, and no more rows for any of them than an even split needs.
  const std::int64_t rows = std::max(problem.rows, std::int64_t{1});
  const std::int64_t warps = config.blocks_per_multiprocessor * kFilterWarpsPerBlock * traits.multiprocessors;
  plan.rows_per_block = core::ceil_div(rows, warps) * kFilterWarpsPerBlock;
  plan.blocks = core::ceil_div(rows, plan.rows_per_block);
  return true;
}

/// The paper's search, with a block for each row.
template <int kBytes>
void plan_scan(Plan& plan) {
  const ScanLaunch config = scan_launch<kBytes>(plan.problem.rows, plan.problem.cols);
  plan.family = Family::cuda_scan;
  plan.threads = config.threads;
  plan.lanes_per_row = config.threads;
  plan.blocks = config.blocks;
  plan.shared_bytes = config.shared_bytes;
}

/// Two reads of each row, by one block, if it has room for what lies around the kth value. Two blocks for each
/// multiprocessor, or one with more threads.
template <int kBytes>
void plan_bracket(const Traits& traits, Plan& plan) {
  const auto layout_for = [&](int threads) {
    return BracketConfig<kBytes>::layout(plan.problem.cols, plan.problem.k, threads);
  };
  const std::int64_t half =
      (traits.shared_bytes_per_block + kReservedBytes) / 2 / 16 * 16 - kReservedBytes - kBracketStaticBytes;
  const bool two_fit = layout_for(kBracketThreads).shared_bytes <= half;
  const int threads = two_fit ? kBracketThreads : kBracketMoreThreads;
  const BracketLayout layout = layout_for(threads);
  const std::int64_t room = two_fit ? half : (traits.shared_bytes_per_block - kBracketStaticBytes) / 16 * 16;
  if (layout.capacity == 0 || layout.shared_bytes > room) return;
  plan.threads = threads;
  plan.lanes_per_row = threads;
  plan.shared_bytes = static_cast<std::size_t>(room);
}

/// Any length, any k. Finds the kth value digit by digit, unless a block has room for two reads.
template <int kBytes>
void plan_radix(const Traits& traits, Plan& plan) {
  const Problem& problem = plan.problem;
  const std::int64_t parts = radix_parts<kBytes>(problem.rows, problem.cols, traits.multiprocessors);
  const RadixLaunch config = radix_launch<kBytes>(problem.rows, problem.cols, parts, traits.multiprocessors);
  plan.family = Family::cuda_radix;
  plan.parts = config.parts;
  plan.threads = config.threads;
  plan.lanes_per_row = config.threads;
  plan.blocks = config.blocks;
  plan.shared_bytes = config.shared_bytes;
  if (plan.parts == 1 && !core::is_general(problem)) plan_bracket<kBytes>(traits, plan);
}

template <int kBytes>
void plan_any_length(const Traits& traits, Family family, Plan& plan) {
  if (family == Family::cuda_scan) return plan_scan<kBytes>(plan);
  plan_radix<kBytes>(traits, plan);
}

/// True if blocks of `warps` warps that need `shared_bytes` can take the plan's rows in tiles of `rows`.
bool tiles_fit(const Plan& plan, std::int64_t warps, std::int64_t rows, std::int64_t shared_bytes) {
  const std::int64_t unit = warps * rows;
  return plan.threads == 32 * warps && static_cast<std::int64_t>(plan.shared_bytes) >= shared_bytes &&
         plan.rows_per_block % unit == 0 && plan.rows_per_block / unit <= kMaxTilesPerWarp;
}

}  // namespace

bool has_aligned_rows(const Problem& problem) noexcept {
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  return problem.cols * element % 16 == 0 && (problem.rows <= 1 || core::stride_of(problem) * element % 16 == 0);
}

BlockLayout block_layout(const Problem& problem, std::int64_t parts) noexcept {
  BlockLayout layout{};
  core::with_element_type(problem.dtype, [&]<class T>(T*) {
    layout = core::is_general(problem) ? BlockConfig<T, true>::layout(problem.rows, problem.cols, problem.k, parts)
                                       : BlockConfig<T>::layout(problem.rows, problem.cols, problem.k, parts);
  });
  return layout;
}

std::int64_t cluster_shared_bytes(const Problem& problem, std::int64_t parts, int threads) noexcept {
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t part = cluster_part_cols(problem.cols, parts, element);
  const std::int64_t capacity = cluster_list(problem.rows, problem.cols, problem.k, element);
  std::int64_t bytes = 0;
  core::with_element_type(problem.dtype, [&]<class T>(T*) {
    bytes = threads == kClusterThreads ? ClusterConfig<T, kClusterThreads>::shared_bytes(capacity, part)
                                       : ClusterConfig<T, kClusterMoreThreads>::shared_bytes(capacity, part);
  });
  return bytes;
}

FilterLaunch filter_launch(DType dtype, std::int64_t k, std::int64_t shared_bytes_per_block) noexcept {
  FilterLaunch config;
  core::with_element_type(dtype, [&]<class T>(T*) {
    using Config = FilterConfig<T>;
    const std::int64_t bytes = Config::shared_bytes(k);
    config.shared_bytes = static_cast<std::size_t>(bytes);
    config.blocks_per_multiprocessor = std::min(std::int64_t{Config::blocks_per_multiprocessor(k)},
                                                (shared_bytes_per_block + kReservedBytes) / (bytes + kReservedBytes));
  });
  return config;
}

bool plan_family(const Traits& traits, Family family, bool wanted, Plan& plan) noexcept {
  switch (family) {
    case Family::cuda_warp: return plan_warp(traits, wanted, plan);
    case Family::cuda_tournament: return plan_tournament(traits, plan);
    case Family::cuda_block: return plan_block(traits, wanted, plan);
    case Family::cuda_filter: return plan_filter(traits, plan);
    case Family::cuda_cluster: return plan_cluster(traits, wanted, plan);
    default: break;
  }
  switch (size_of(plan.problem.dtype)) {
    case 2: plan_any_length<2>(traits, family, plan); break;
    case 4: plan_any_length<4>(traits, family, plan); break;
    default: plan_any_length<8>(traits, family, plan);
  }
  return true;
}

bool tiles_are_known(const Plan& plan) noexcept {
  const Problem& problem = plan.problem;
  bool known = false;
  core::with_element_type(problem.dtype, [&]<class T>(T*) {
    if (plan.family == Family::cuda_warp) {
      const auto fits = [&]<class Config>(int lanes, int elements) {
        if (plan.lanes_per_row != lanes || plan.elements_per_lane != elements) return false;
        known = Config::takes(problem.cols) &&
                tiles_fit(plan, kWarpsPerBlock, Config::kRows, warp_shared_bytes<Config>(problem));
        return true;
      };
      if (core::is_general(problem)) {
        for_ragged_variants<T>([&]<int G, int R>() { return fits.template operator()<RaggedConfig<T, G, R>>(G, R); });
        return;
      }
      for_aligned_variants<T>([&]<int G, int R>() { return fits.template operator()<AlignedConfig<T, G, R>>(G, R); });
      if (core::makes_passes(problem)) return;
      for_unaligned_variants<T>(
          [&]<int G, int R>() { return fits.template operator()<UnalignedConfig<T, G, R>>(G, R); });
    } else {
      const auto fits = [&]<int G, int R>(std::int64_t shared_bytes, std::int64_t) {
        if (plan.lanes_per_row != G || plan.elements_per_lane != R) return false;
        known = tiles_fit(plan, kTournamentWarps, 32 / G, shared_bytes);
        return true;
      };
      if (core::is_general(problem)) {
        with_uneven_tournament_config<T>(problem, fits);
      } else {
        with_tournament_config<T>(problem, fits);
      }
    }
  });
  return known;
}

bool use_unaligned_rows(Plan& plan) noexcept {
  const Problem& problem = plan.problem;
  const std::int64_t batch = plan.rows_per_block * plan.lanes_per_row / plan.threads;
  return core::with_element_type(problem.dtype, [&]<class T>(T*) {
    return for_unaligned_variants<T>([&]<int G, int R>() {
      using Config = UnalignedConfig<T, G, R>;
      if (problem.order == Order::by_value && problem.k > Config::kSorted) return false;
      if (has_too_many_results<T, G, R>(problem)) return false;
      return set_warp_config<Config, G, R>(batch, static_cast<std::int64_t>(plan.shared_bytes), plan);
    });
  });
}

bool use_block(Plan& plan) noexcept {
  const BlockLayout layout = block_layout(plan.problem, 1);
  if (layout.chunks == 0 || plan.problem.rows > kMaxGridBlocks || plan.problem.cols <= kMinColsOfBlock) return false;
  Plan block = plan;
  set_block_config(layout, 1, block);
  if (sorts_afterwards(block) != sorts_afterwards(plan)) return false;
  plan = block;
  return true;
}

}  // namespace rtopk::cuda
