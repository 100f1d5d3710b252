// cuda_tournament: the few largest elements of short rows, without a search. A row has G lanes of a warp, each of which
// owns R neighbouring elements.
//
// Every lane sorts its elements a few at a time and keeps the K largest; K is k rounded up to a power of two. Then the
// lanes of a row merge their lists. All of this is minima and maxima in a fixed order, so that the time does not depend
// on the data. The k-th of the final list is the kth value. Elements that reach it are marked and listed; the list is
// written for all rows of the warp at once. If more than k elements reach the kth value, the first of those equal to it
// are taken.
#pragma once

#include "cuda/select/early_stop.cuh"
#include "cuda/select/marks.cuh"
#include "cuda/select/tournament/element.cuh"
#include "cuda/select/tournament/tile.cuh"
#include "cuda/select/tournament/unaligned_tile.cuh"

namespace rtopk::cuda {

/// Lists of words in descending order. Each half of a word of two elements is a list of its own.
template <class E>
struct TournamentList {
  using Word = typename E::Word;

  static __device__ void exchange(Word& first, Word& second) {
    const Word a = first;
    const Word b = second;
    first = E::greater(a, b);
    second = E::lesser(a, b);
  }

  /// Batcher's odd-even merge sort.
  template <int N>
  static __device__ void sort(Word (&list)[N]) {
#pragma unroll
    for (int size = 1; size < N; size *= 2) {
#pragma unroll
      for (int distance = size; distance > 0; distance /= 2) {
#pragma unroll
        for (int i = 0; i + distance < N; ++i) {
          const bool in_turn = i >= distance % size && (i - distance % size) / distance % 2 == 0;
          if (in_turn && i / (2 * size) == (i + distance) / (2 * size)) exchange(list[i], list[i + distance]);
        }
      }
    }
  }

  /// The K largest of both lists, as a bitonic sequence, which `tidy` sorts.
  template <int K, int N>
  static __device__ void take_greatest(Word (&list)[K], const Word (&other)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) list[K - 1 - i] = E::greater(list[K - 1 - i], other[i]);
  }

  template <int K>
  static __device__ void tidy(Word (&list)[K]) {
#pragma unroll
    for (int distance = K / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int i = 0; i < K; ++i) {
        if ((i & distance) == 0) exchange(list[i], list[i + distance]);
      }
    }
  }

  /// The first of a list, in any order.
  template <int K>
  static __device__ Word greatest(const Word (&list)[K]) {
    Word found = list[0];
#pragma unroll
    for (int i = 1; i < K; ++i) found = E::greater(found, list[i]);
    return found;
  }

  /// The k-th of a bitonic list.
  template <int K>
  static __device__ Word at_rank(Word (&list)[K], int k) {
    Word kth;
    if (k == K) {
      kth = list[0];
#pragma unroll
      for (int i = 1; i < K; ++i) kth = E::lesser(kth, list[i]);
    } else {
      tidy(list);
      kth = list[0];
#pragma unroll
      for (int i = 1; i < K - 1; ++i) kth = i < k ? list[i] : kth;
    }
    return kth;
  }
};

template <class Tile>
class TournamentSelect {
 public:
  using T = typename Tile::Type;
  using E = TournamentElement<T>;
  using Word = typename E::Word;
  static constexpr int G = Tile::kLanes;
  static constexpr int K = Tile::kList;
  static constexpr int kMasks = Tile::kMasks;
  using List = TournamentList<E>;
  using Group = LaneGroup<G>;

  __device__ explicit TournamentSelect(const SelectArguments& args) : plain_(!args.smallest && !args.magnitude) {}

  /// Selects from the rows of a tile and writes the results.
  __device__ void select(const Tile& tile) {
    // After one NaN, more are likely to follow.
    if (plain_) plain_ = select_as<true>(tile);
    if (!plain_) select_directed(tile.args, tile.stage, tile.first_row);
  }

 private:
  /// Not inlined, so that the other path can use all registers.
  static __device__ __noinline__ void select_directed(const typename Tile::Arguments& args, int stage,
                                                      std::int64_t first_row) {
    select_as<false>(Tile(args, stage, first_row));
  }

  /// Compares elements as they are (kPlain) or directed. False, with nothing written, if they must be directed.
  template <bool kPlain>
  static __device__ bool select_as(const Tile& tile) {
    Word best[K];
    find_best<kPlain>(tile, best);
    const Word kth = List::at_rank(best, tile.k());
    if constexpr (kPlain && E::kHasNan) {
      if (__any_sync(kFullWarp, E::is_nan(kth))) return false;
    }
    if constexpr (Tile::kStopsEarly) {
      if (tile.args.bisection) {
        select_early<kPlain>(tile.args, tile.stage, tile.first_row, List::greatest(best), kth);
        return true;
      }
    }
    unsigned marks[kMasks];
    mark_at_least<kPlain>(tile, kth, marks);
    if constexpr (K == 1 && (kPlain || !E::kHasNan)) {
      keep_only_first(marks);
      tile.write(marks, 0);
    } else {
      unsigned before = Group::inclusive_sum(count(marks));
      if (__any_sync(kFullWarp, Group::from_lane(before, G - 1) != static_cast<unsigned>(tile.k()))) {
        break_ties<kPlain>(tile, kth, marks);
        before = Group::inclusive_sum(count(marks));
      }
      tile.write(marks, static_cast<int>(before - count(marks)));
    }
    return true;
  }

  /// What a search that stops early selects (early_stop.cuh). Rows with an element that is not finite stay exact.
  template <bool kPlain>
  static __device__ __noinline__ void select_early(const typename Tile::Arguments& args, int stage,
                                                   std::int64_t first_row, Word greatest_word, Word kth) {
    const Tile tile(args, stage, first_row);
    const auto greatest = E::arithmetic(greatest_word, args.smallest);
    const auto least = E::arithmetic(find_least<kPlain>(tile), args.smallest);
    const auto selection = core::selection_of_kth(args, least, greatest, E::arithmetic(kth, args.smallest));
    unsigned sets[2][kMasks];
    const Word thresholds[2] = {E::reaching(selection.sure, args.smallest), E::reaching(selection.fill, args.smallest)};
    tile.template mark<kPlain>(sets, [&](const auto& x, int set) { return E::at_least(x, thresholds[set]); });
    auto& [marks, fill] = sets;
#pragma unroll
    for (int i = 0; i < kMasks; ++i) {
      marks[i] = selection.fill_only ? 0u : marks[i];
      fill[i] &= ~marks[i];
    }
    keep_first(fill, tile.k() - static_cast<int>(Group::from_lane(Group::inclusive_sum(count(marks)), G - 1)));
#pragma unroll
    for (int i = 0; i < kMasks; ++i) marks[i] |= fill[i];
    const bool finite = isfinite(least) && isfinite(greatest);
    if (__any_sync(kFullWarp, !finite)) {
      mark_at_least<kPlain>(tile, kth, fill);
      break_ties<kPlain>(tile, kth, fill);
#pragma unroll
      for (int i = 0; i < kMasks; ++i) marks[i] = finite ? marks[i] : fill[i];
    }
    tile.write(marks, static_cast<int>(Group::inclusive_sum(count(marks)) - count(marks)));
  }

  /// Finds the k largest, a bitonic list. It has a NaN at its kth place if the row has one and elements are compared as
  /// they are.
  template <bool kPlain>
  static __device__ void find_best(const Tile& tile, Word (&best)[K]) {
    tile.template for_each_list<kPlain>([&]<int N>(Word(&list)[N], int number) {
      List::sort(list);
      if (number == 0) {
#pragma unroll
        for (int i = 0; i < K; ++i) best[i] = i < N ? list[i] : E::least();
      } else {
        if (number > 1) List::tidy(best);
        List::take_greatest(best, list);
      }
    });
    Word other[K];
#pragma unroll
    for (int distance = 1; distance < G; distance *= 2) {
      List::tidy(best);
#pragma unroll
      for (int i = 0; i < K; ++i) other[i] = __shfl_xor_sync(kFullWarp, best[i], distance);
      List::take_greatest(best, other);
    }
    if constexpr (E::kPerWord == 2) {
      List::tidy(best);
#pragma unroll
      for (int i = 0; i < K; ++i) other[i] = E::halves_swapped(best[i]);
      List::take_greatest(best, other);
    }
  }

  /// The least element of the row.
  template <bool kPlain>
  static __device__ Word find_least(const Tile& tile) {
    Word found = tile.template least<kPlain>();
#pragma unroll
    for (int distance = 1; distance < G; distance *= 2) {
      found = E::lesser(found, __shfl_xor_sync(kFullWarp, found, distance));
    }
    if constexpr (E::kPerWord == 2) found = E::lesser(found, E::halves_swapped(found));
    return found;
  }

  template <bool kPlain, class F>
  static __device__ void mark(const Tile& tile, Word kth, unsigned (&marks)[kMasks], F f) {
    // Loads the elements again: keeping them in registers would halve the number of warps that fit.
    asm volatile("" ::: "memory");
    unsigned set[1][kMasks];
    tile.template mark<kPlain>(set, [&](const auto& x, int) { return f(x, kth); });
#pragma unroll
    for (int i = 0; i < kMasks; ++i) marks[i] = set[0][i];
  }

  template <bool kPlain>
  static __device__ void mark_at_least(const Tile& tile, Word threshold, unsigned (&marks)[kMasks]) {
    mark<kPlain>(tile, threshold, marks, [](const auto& x, Word at) { return E::at_least(x, at); });
  }

  static __device__ unsigned count(const unsigned (&marks)[kMasks]) {
    int sum = __popc(marks[0]);
    if constexpr (kMasks == 2) sum += __popc(marks[1]);
    return static_cast<unsigned>(sum);
  }

  /// Leaves one mark in every row, the first. For k = 1: then all marks are of elements equal to the kth value.
  static __device__ void keep_only_first(unsigned (&marks)[kMasks]) {
    bool first = true;
    if constexpr (G > 1) {
      const unsigned lower_lanes = (1u << threadIdx.x % 32) - 1;
      first = (Group::vote((marks[0] | marks[kMasks - 1]) != 0) & lower_lanes) == 0;
    }
    if (kMasks == 2 && marks[0] != 0) marks[kMasks - 1] = 0;
#pragma unroll
    for (int i = 0; i < kMasks; ++i) {
      marks[i] = first ? marks[i] & 0x80000000u >> (__clz(static_cast<int>(marks[i])) & 31) : 0u;
    }
  }

  /// Leaves k marks in every row: the elements above the kth value, and the first of those equal to it.
  template <bool kPlain>
  static __device__ void break_ties(const Tile& tile, Word kth, unsigned (&marks)[kMasks]) {
    unsigned above[kMasks];
    mark<kPlain>(tile, kth, above, [](const auto& x, Word at) { return E::above(x, at); });
    unsigned equal[kMasks];
#pragma unroll
    for (int i = 0; i < kMasks; ++i) equal[i] = marks[i] & ~above[i];
    int quota = tile.k() - static_cast<int>(Group::from_lane(Group::inclusive_sum(count(above)), G - 1));
    if constexpr (!kPlain && E::kHasNan) {
      if (__any_sync(kFullWarp, E::is_infinite(kth))) quota = keep_better(tile, kth, above, equal, quota);
    }
    keep_first(equal, quota);
#pragma unroll
    for (int i = 0; i < kMasks; ++i) marks[i] = above[i] | equal[i];
  }

  /// NaN counted as infinity so far. Of the two, the better one comes first: as far as the quota goes, it moves from
  /// those equal to the kth value to those above. Returns what is left of the quota.
  static __device__ int keep_better(const Tile& tile, Word kth, unsigned (&above)[kMasks], unsigned (&equal)[kMasks],
                                    int quota) {
    const bool infinite = E::is_infinite(kth);
    unsigned nan[kMasks];
    mark<true>(tile, kth, nan, [](const auto& x, Word) { return E::is_nan(x); });
    unsigned better[kMasks];
#pragma unroll
    for (int i = 0; i < kMasks; ++i) {
      better[i] = infinite ? equal[i] & (tile.args.smallest ? ~nan[i] : nan[i]) : 0u;
      equal[i] &= ~better[i];
    }
    quota = keep_first(better, quota);
#pragma unroll
    for (int i = 0; i < kMasks; ++i) above[i] |= better[i];
    return quota;
  }

  /// Keeps the first `quota` of the row's marks. Returns what is left of the quota.
  static __device__ int keep_first(unsigned (&marks)[kMasks], int quota) {
    const int mine = static_cast<int>(count(marks));
    const int inclusive = static_cast<int>(Group::inclusive_sum(static_cast<unsigned>(mine)));
    Marks<32 * kMasks> kept;
#pragma unroll
    for (int i = 0; i < kMasks; ++i) kept.words[i] = marks[i];
    kept.keep_first(quota - (inclusive - mine));
#pragma unroll
    for (int i = 0; i < kMasks; ++i) marks[i] = kept.words[i];
    return max(0, quota - Group::from_lane(inclusive, G - 1));
  }

  bool plain_;  ///< True if elements are compared as they are.
};

/// Rows that begin and end at multiples of 16 bytes.
template <class T, int G, int R, int K>
__global__ void __launch_bounds__(32 * kTournamentWarps, (TournamentConfig<T, G, R>::kBlocksPerMultiprocessor))
    tournament_kernel(const __grid_constant__ TournamentArguments args) {
  using Config = TournamentConfig<T, G, R>;
  using Tile = TournamentTile<T, G, R, K>;
  constexpr int kAhead = Config::kStages - 1;

  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kTournamentWarps + threadIdx.x / 32;
  const std::int64_t first_row = warp * args.batch_length * Config::kRows;
  const std::int64_t rows = max(std::int64_t{0}, min(args.rows - first_row, args.batch_length * Config::kRows));
  const int tiles = static_cast<int>((rows + Config::kRows - 1) / Config::kRows);
  const bool without_gaps = args.cols == Config::kCols && args.stride == Config::kCols;
  const int whole_tiles = without_gaps ? static_cast<int>(rows / Config::kRows) : 0;
  const T* from = static_cast<const T*>(args.input) + first_row * Config::kCols + Tile::lane() * Config::kVector;
  const auto fetch = [&](int number) {
    const int stage = number % Config::kStages;
    const std::int64_t row = first_row + number * Config::kRows;
    if (number < whole_tiles) {
      Tile{args, stage, row}.fetch_whole(from + static_cast<std::int64_t>(number) * (Config::kRows * Config::kCols));
    } else if (number < tiles) {
      Tile{args, stage, row}.fetch_any();
    }
    commit_copies();
  };

  if (args.cols < std::int64_t{args.share} * G) {
#pragma unroll 1
    for (int stage = 0; stage < Config::kStages; ++stage) Tile{args, stage, 0}.pad();
  }
#pragma unroll 1
  for (int number = 0; number < kAhead; ++number) fetch(number);
  TournamentSelect<Tile> rows_of_tile(args);
#pragma unroll 1
  for (int number = 0; number < tiles; ++number) {
    fetch(number + kAhead);
    wait_for_copies<kAhead>();
    __syncwarp();
    rows_of_tile.select(Tile{args, number % Config::kStages, first_row + number * Config::kRows});
    __syncwarp();
  }
}

/// Rows at any address.
template <class T, int G, int R, int K>
__global__ void __launch_bounds__(32 * kTournamentWarps, (UnalignedTournamentConfig<T, G, R>::kBlocksPerMultiprocessor))
    unaligned_tournament_kernel(const __grid_constant__ UnalignedTournamentArguments args) {
  using Tile = UnalignedTournamentTile<T, G, R, K>;
  constexpr int kRows = Tile::Config::kRows;
  constexpr int kAhead = Tile::Config::kStages - 1;

  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kTournamentWarps + threadIdx.x / 32;
  const std::int64_t first_row = warp * args.batch_length * kRows;
  const std::int64_t rows = max(std::int64_t{0}, min(args.rows - first_row, args.batch_length * kRows));
  const int tiles = static_cast<int>((rows + kRows - 1) / kRows);
  const auto fetch = [&](int number) {
    if (number < tiles) Tile::fetch(args, number % Tile::Config::kStages, first_row + number * kRows);
    commit_copies();
  };

  Tile::pad(args);
#pragma unroll 1
  for (int number = 0; number < kAhead; ++number) fetch(number);
  TournamentSelect<Tile> rows_of_tile(args);
#pragma unroll 1
  for (int number = 0; number < tiles; ++number) {
    fetch(number + kAhead);
    wait_for_copies<kAhead>();
    __syncwarp();
    rows_of_tile.select(Tile(args, number % Tile::Config::kStages, first_row + number * kRows));
    __syncwarp();
  }
}

}  // namespace rtopk::cuda
