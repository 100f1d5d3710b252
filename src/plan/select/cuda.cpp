// Picks the CUDA family for a problem, and its config.
#include <algorithm>

#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "core/rows.hpp"
#include "core/sizes.hpp"
#include "plan/cuda.hpp"
#include "plan/select/tuning_block.hpp"
#include "plan/select/tuning_cluster.hpp"
#include "plan/select/tuning_filter.hpp"
#include "plan/select/tuning_gather.hpp"
#include "plan/select/tuning_radix.hpp"
#include "plan/select/tuning_scan.hpp"
#include "plan/select/tuning_sort.hpp"
#include "plan/select/tuning_tournament.hpp"
#include "plan/select/tuning_warp.hpp"
#include "plan/select/workspace.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::int64_t kMaxBlocks = 0x7fffffff;
constexpr std::size_t kMaxSharedBytes = std::size_t{1} << 20;  // of a block: several times what any GPU has
constexpr std::int64_t kReservedBytes = 1024;                  // of each block's shared memory, for the system
constexpr std::int64_t kGeneralRowBytes = 1024;                // of a block's shared memory, for its general row

/// Units (tiles or rows) in a worker's batch: enough that a row learns from those before it and that copies run ahead,
/// few enough that the last batches do not leave the device idle.
std::int64_t batch_length(std::int64_t units, std::int64_t workers, std::int64_t longest) {
  std::int64_t length = std::clamp(units / workers, std::int64_t{1}, longest);
  while (core::ceil_div(units, length) > kMaxBlocks && length < kMaxTilesPerWarp) length *= 2;
  return length;
}

/// Tiles in a warp's batch. About 20 warps fit on a multiprocessor. Measured.
std::int64_t tiles_per_warp(std::int64_t tiles, std::int64_t multiprocessors) {
  const std::int64_t of_each = tiles / multiprocessors;
  const std::int64_t fewest = core::ceil_div(tiles, kMaxBlocks);  // at four warps a block, far more than is ever needed
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
  if (blocks > kMaxBlocks) return false;
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
bool has_many_results(const Problem& problem, int lanes) {
  constexpr std::int64_t kMaxResultsPerLane = 16;
  return problem.k > kMaxResultsPerLane * lanes || problem.form == Form::dense || problem.form == Form::mask ||
         problem.order == Order::by_value;
}

/// 16-bit rows at odd addresses that are longer are cuda_block's, if cuda_warp has no layout for them.
constexpr std::int64_t kMinColsOfBlock = 1024;

/// True if the paper's passes are asked for, one by one. Otherwise an early-stopped selection may be derived from the
/// exact one.
bool makes_passes(const Problem& problem) { return problem.search == Search::bisection; }

/// True if all rows begin and end at multiples of 16 bytes, provided that the first does.
bool has_aligned_rows(const Problem& problem) {
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  return problem.cols * element % 16 == 0 && (problem.rows <= 1 || core::stride_of(problem) * element % 16 == 0);
}

template <class T>
bool plan_unaligned_rows(const Traits& traits, Plan& plan) {
  return for_unaligned_variants<T>([&]<int G, int R>() {
    if (core::bisects(plan.problem) && !UnalignedConfig<T, G, R>::stops_early(plan.problem.cols)) return false;
    if (G == 4 && R * static_cast<int>(sizeof(T)) > 64 && has_many_results(plan.problem, G)) return false;
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
    const bool odd = sizeof(T) == 2 && (problem.cols | core::stride_of(problem)) % 2 != 0;
    if (!makes_passes(problem) && !has_aligned_rows(problem)) {
      if ((!core::bisects(problem) || odd) && plan_unaligned_rows<T>(traits, plan)) return true;
      // 16-bit rows of an odd pitch that are too long for that layout would be copied element by element. Measured,
      // bf16, masks, times the floor: 1947 columns 17.2; cuda_block, 2956 columns: 2.8.
      if (!wanted && odd && problem.cols > kMinColsOfBlock) return false;
    }
    return for_aligned_variants<T>([&]<int G, int R>() {
      if (core::bisects(problem) && !AlignedConfig<T, G, R>::kBisects) return false;
      if (G == 4 && R * static_cast<int>(sizeof(T)) > 64 && has_many_results(problem, G)) return false;
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
      if (core::ceil_div(tiles, batch * kTournamentWarps) > kMaxBlocks) return false;
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

/// True if cuda_tournament is the fastest where it takes the problem. It merges lists of 16 if several lanes share a
/// row: then it takes longer than cuda_warp's search of aligned rows. Measured, f32, times the floor, cuda_warp and
/// cuda_tournament: 128 columns, k 16, dense: 1.18, 1.64; 200 columns, k 10: 1.47, 2.20.
bool prefers_tournament(const Problem& problem) {
  return problem.k <= 8 || problem.cols <= 64 || size_of(problem.dtype) != 4 || !has_aligned_rows(problem);
}

BlockLayout block_layout(const Problem& problem, std::int64_t parts) {
  BlockLayout layout{};
  core::with_element_type(problem.dtype, [&]<class T>(T*) {
    layout = core::is_general(problem) ? BlockConfig<T, true>::layout(problem.rows, problem.cols, problem.k, parts)
                                       : BlockConfig<T>::layout(problem.rows, problem.cols, problem.k, parts);
  });
  return layout;
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
/// Few rows: the fewest blocks that keep two on every multiprocessor nearly all the time, so that enough copies are in
/// flight; if no number does, the one that comes nearest. Many rows: the number of blocks with which most bytes are kept
/// at a time. More blocks must be clearly better, because blocks that share a row wait for each other. Measured, times
/// the floor, 4096 rows of 65536, f32, k 1024: 2 parts, 131 KB on a multiprocessor: 2.4; 4 parts, 197 KB: 2.1; 8 parts,
/// 164 KB: 3.6.
bool plan_block(const Traits& traits, bool wanted, Plan& plan) {
  constexpr std::int64_t kBlocks = 2;
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
    if (rows > kMaxBlocks / parts) break;
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
    if (!keeps_many && 7 * busy >= 6) break;
  }
  return planned;
}

/// The shared memory of a block of cuda_cluster.
std::int64_t cluster_shared_bytes(const Problem& problem, std::int64_t parts, int threads) {
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t part = cluster_part_cols(problem.cols, parts, element);
  const std::int64_t capacity = cluster_list(problem.cols, problem.k, element);
  std::int64_t bytes = 0;
  core::with_element_type(problem.dtype, [&]<class T>(T*) {
    bytes = threads == kClusterThreads ? ClusterConfig<T, kClusterThreads>::shared_bytes(capacity, part)
                                       : ClusterConfig<T, kClusterMoreThreads>::shared_bytes(capacity, part);
  });
  return bytes;
}

/// True if cuda_cluster is the fastest: rows are long, a small share of each is selected, and the matrix is so large that
/// it is better read than kept in shared memory. Measured, times the floor, cuda_cluster and cuda_block: 700 rows of
/// 150000, f32, k 512: 1.27, 2.46; k 4096: 1.78, 2.91; bf16, k 512: 1.55, 2.70; k 9375: 6.2, 3.8; 64 rows of 131072,
/// f32, k 512: 1.89, 2.67; 64 rows of 32768: 2.91, 2.55; 23 rows of 158464: 1.98, 1.72; 1500 rows of 30001, f32, k 512:
/// 1.73, 1.94; 8686 rows of 25468, bf16, k 167: 2.02, 1.64.
bool prefers_cluster(const Traits& traits, const Problem& problem) {
  constexpr std::int64_t kBytesOfMultiprocessor = 112 << 10;
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t min_cols = element == 2 ? 32768 : 24576;
  if (problem.cols < min_cols || problem.cols > kClusterMaxCols) return false;
  if (problem.k > problem.cols / (element == 2 ? 32 : 16)) return false;
  // A block that keeps its row can write the whole of it, and sorts a few results by itself.
  const bool writes_rows = problem.form == Form::dense || problem.form == Form::mask;
  const bool sorts = problem.order == Order::by_value && problem.k <= kBlockMaxSorted && element < 8;
  if ((writes_rows || sorts) && prefers_block(traits, problem)) return false;
  return problem.rows >= traits.multiprocessors / 2 - 2 &&
         problem.rows >= kBytesOfMultiprocessor * traits.multiprocessors / (problem.cols * element);
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
  if (problem.cols > kClusterMaxCols || rows > kMaxBlocks) return false;
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const auto part_of = [&](std::int64_t parts) { return cluster_part_cols(problem.cols, parts, element); };
  // Two blocks for nearly every multiprocessor. More would only wait for each other.
  std::int64_t parts = 1;
  while (traits.compute_capability >= 90 && parts < kMaxParts && part_of(2 * parts) >= kMinPartCols &&
         (10 * rows * parts < std::int64_t{19} * traits.multiprocessors || part_of(parts) > kClusterMaxPartCols)) {
    parts *= 2;
  }
  const std::int64_t part = part_of(parts);
  if (part > kClusterMaxPartCols || rows > kMaxBlocks / parts) return false;
  if (!wanted && part * element > kMaxPartBytesOfFew && 4 * rows * parts < traits.multiprocessors) return false;

  const std::int64_t shared_bytes = traits.shared_bytes_per_block + kReservedBytes;  // of a multiprocessor
  const auto fits = [&](int threads, std::int64_t blocks) {
    return blocks * (cluster_shared_bytes(problem, parts, threads) + kReservedBytes) <= shared_bytes;
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
  const std::int64_t room = parts > 1 ? 0 : (shared_bytes / at_a_time - kReservedBytes) / 16 * 16;
  plan.shared_bytes = static_cast<std::size_t>(std::max(room, cluster_shared_bytes(problem, parts, threads)));
  return true;
}

/// The shared memory of a block of cuda_filter, and how many blocks fit on a multiprocessor.
struct FilterLaunch {
  std::size_t shared_bytes = 0;
  std::int64_t blocks_per_multiprocessor = 0;
};

FilterLaunch filter_launch(DType dtype, std::int64_t k, std::int64_t shared_bytes_per_block) {
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
  // 1.24, 1.74. Else: bf16, 19543x9280, k 1125: 3.80, 2.56. With two rows each, data that misleads costs too much: f32,
  // 4096x16384, k 1024, normal data 2.0, two humps 4.0.
  constexpr std::int64_t kManyRowsPerWarp = 10;
  constexpr std::int64_t kFewRowsPerWarp = 5;
  constexpr std::int64_t kMaxDenseCols =
      8192;  // longer dense rows and masks are written by a warp as fast as by a block
  const bool writes_rows = problem.form == Form::dense || problem.form == Form::mask;
  const std::int64_t warps = config.blocks_per_multiprocessor * kFilterWarpsPerBlock * traits.multiprocessors;
  const bool small_k = has_16_bits
                           ? problem.cols >= 8192 && problem.k <= problem.cols / 64
                           : problem.cols >= 6144 && problem.k <= problem.cols / 16 && problem.dtype != DType::f64;
  const bool enough_rows = problem.rows >= (small_k ? kFewRowsPerWarp : kManyRowsPerWarp) * warps &&
                           (small_k || problem.k <= problem.cols / (has_16_bits ? 16 : 8));
  return has_aligned_rows(problem) && enough_rows && !(writes_rows && problem.cols <= kMaxDenseCols);
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

/// Finds the kth value digit by digit: any length, any k.
template <int kBytes>
void plan_radix(const Traits& traits, Plan& plan) {
  const Problem& problem = plan.problem;
  const std::int64_t parts =
      core::is_general(problem) ? 1 : radix_parts<kBytes>(problem.rows, problem.cols, traits.multiprocessors);
  const RadixLaunch config = radix_launch<kBytes>(problem.rows, problem.cols, parts, traits.multiprocessors);
  plan.family = Family::cuda_radix;
  plan.parts = config.parts;
  plan.threads = config.threads;
  plan.lanes_per_row = config.threads;
  plan.blocks = config.blocks;
  plan.shared_bytes = config.shared_bytes;
}

template <int kBytes>
void plan_any_length(const Traits& traits, Family family, Plan& plan) {
  if (family == Family::cuda_scan) return plan_scan<kBytes>(plan);
  plan_radix<kBytes>(traits, plan);
}

/// Sets the config of a family that can do the problem's search; false if rows are too long for it or k is too large.
bool plan_family(const Traits& traits, Family family, bool wanted, Plan& plan) {
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
    const bool planned = takes(Family::cuda_warp) || (!makes_passes(problem) && takes(Family::cuda_block));
    if (!planned) takes(Family::cuda_scan);
    return;
  }
  const bool planned = (prefers_tournament(problem) && takes(Family::cuda_tournament)) || takes(Family::cuda_warp) ||
                       (prefers_filter(traits, problem) && takes(Family::cuda_filter)) ||
                       (prefers_cluster(traits, problem) && takes(Family::cuda_cluster)) || takes(Family::cuda_block) ||
                       (has_small_share(problem) && takes(Family::cuda_cluster));
  if (!planned) takes(Family::cuda_radix);
}

/// Checks that a family can do the search that a problem asks for. `argument`: how the error names the family.
Status check_search(Family family, const Problem& problem, const char* argument) {
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
    case Family::cuda_block:
      if (exact || !makes_passes(problem)) return {};
      break;
    case Family::cuda_tournament:
    case Family::cuda_filter:
    case Family::cuda_cluster:
    case Family::cuda_radix:
      if (exact) return {};
      break;
    default: break;
  }
  return core::status(StatusCode::invalid_argument, "%s is %s; accepted for this search on a GPU: %s", argument,
                      name(family),
                      exact ? "cuda_warp, cuda_tournament, cuda_block, cuda_filter, cuda_cluster or cuda_radix"
                      : makes_passes(problem) ? "cuda_warp or cuda_scan"
                                              : "cuda_warp, cuda_block or cuda_scan");
}

/// The problems that a family takes, for the error if it does not take this one.
const char* limits_of(Family family, bool general) {
  switch (family) {
    case Family::cuda_warp: return "rows of up to 2048 columns (1024 of f64)";
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

/// Checks what kernels for general rows cannot do.
Status check_general(const Problem& problem) {
  if (!core::is_general(problem)) return {};
  if (problem.cols > kRadixMaxPart) {
    return core::status(StatusCode::not_supported, "cols is %lld; accepted for these rows on a GPU: up to %lld",
                        static_cast<long long>(problem.cols), static_cast<long long>(kRadixMaxPart));
  }
  return {};
}

/// Plans with the family that the caller wants.
Status plan_wanted(const Traits& traits, Family wanted, Plan& plan) {
  if (Status status = check_search(wanted, plan.problem, "family"); !status.ok()) return status;
  if (plan_family(traits, wanted, true, plan)) return {};
  return core::status(StatusCode::invalid_argument, "family is %s, with %lld columns and k = %lld of %s; it takes %s",
                      name(wanted), static_cast<long long>(plan.problem.cols), static_cast<long long>(plan.problem.k),
                      name(plan.problem.dtype), limits_of(wanted, core::is_general(plan.problem)));
}

/// True if blocks of `warps` warps that need `shared_bytes` can take the plan's rows in tiles of `rows`.
bool tiles_fit(const Plan& plan, std::int64_t warps, std::int64_t rows, std::int64_t shared_bytes) {
  const std::int64_t unit = warps * rows;
  return plan.threads == 32 * warps && static_cast<std::int64_t>(plan.shared_bytes) >= shared_bytes &&
         plan.rows_per_block % unit == 0 && plan.rows_per_block / unit <= kMaxTilesPerWarp;
}

/// True if there is a kernel of cuda_warp or cuda_tournament for the plan's tiles.
bool tiles_are_known(const Plan& plan) {
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
      if (makes_passes(problem)) return;
      for_unaligned_variants<T>([&]<int G, int R>() {
        using Config = UnalignedConfig<T, G, R>;
        return (!core::bisects(problem) || Config::stops_early(problem.cols)) && fits.template operator()<Config>(G, R);
      });
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

/// Checks that the config of a plan fits its family. The kernels rely on it.
Status check_config(const Plan& plan) {
  const Problem& problem = plan.problem;
  const std::int64_t rows = std::max(problem.rows, std::int64_t{1});
  if (plan.blocks < 1 || plan.blocks > kMaxBlocks) return core::invalid("plan.blocks", plan.blocks, "1 to 2147483647");
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
    if (static_cast<std::int64_t>(plan.shared_bytes) < cluster_shared_bytes(problem, plan.parts, plan.threads)) {
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
  if (plan.family == Family::cuda_radix && core::is_general(problem) && plan.parts != 1) {
    return core::invalid("plan.parts", plan.parts, "1 for these rows");
  }
  if (plan.family == Family::cuda_radix && plan.parts < core::ceil_div(problem.cols, kRadixMaxPart)) {
    return core::invalid("plan.parts", plan.parts, "one for every 2^30 columns");
  }
  return {};
}

}  // namespace

bool use_unaligned_rows(Plan& plan) noexcept {
  const Problem& problem = plan.problem;
  const std::int64_t batch = plan.rows_per_block * plan.lanes_per_row / plan.threads;
  return core::with_element_type(problem.dtype, [&]<class T>(T*) {
    return for_unaligned_variants<T>([&]<int G, int R>() {
      using Config = UnalignedConfig<T, G, R>;
      if (core::bisects(problem) ? !Config::stops_early(problem.cols)
                                 : problem.order == Order::by_value && problem.k > Config::kSorted) {
        return false;
      }
      if (G == 4 && R * static_cast<int>(sizeof(T)) > 64 && has_many_results(problem, G)) return false;
      return set_warp_config<Config, G, R>(batch, static_cast<std::int64_t>(plan.shared_bytes), plan);
    });
  });
}

bool use_block(Plan& plan) noexcept {
  const BlockLayout layout = block_layout(plan.problem, 1);
  if (layout.chunks == 0 || plan.problem.rows > kMaxBlocks || plan.problem.cols <= kMinColsOfBlock) return false;
  Plan block = plan;
  set_block_config(layout, 1, block);
  if (sorts_afterwards(block) != sorts_afterwards(plan)) return false;
  plan = block;
  return true;
}

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
