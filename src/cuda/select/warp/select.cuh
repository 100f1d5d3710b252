// cuda_warp: rows of up to 2048 elements (1024 of f64), one for each group of G lanes, with R elements in the registers
// of each lane.
//
// A warp works through its batch tile by tile (tiles.cuh). In each row it looks for a threshold that exactly k elements
// reach (counting_search.cuh). Fallback rows are deferred to the end of the batch and searched by keys (search.cuh).
#pragma once

#include "cuda/select/warp/lane.cuh"
#include "cuda/select/warp/rank.cuh"
#include "cuda/select/warp/search.cuh"
#include "cuda/select/warp/tiles.cuh"

namespace rtopk::cuda {

/// What a kernel is compiled for: rarely needed code would cost the other kernels registers.
enum class WarpTask { select, select_in_order, bisect };

/// Two thresholds around the kth value: how many elements too many or too few reach each, and which ones. At first they
/// are not counted, but so far apart that interpolation takes steps of the learnt size.
/// Invariant, once counted: at least k elements reach `low`, at most k reach `high`.
template <class Real, int R>
struct Interval {
  static constexpr Real kFar = 127.5;  ///< Ranks. Not an integer, so that it differs from every count.

  Real low;
  Real high;
  Real off_low;
  Real off_high;
  Marks<R> reached_low;
  Marks<R> reached_high;

  __device__ void open(const Learnt<Real>& learnt) {
    low = learnt.kth - kFar * learnt.step;
    high = learnt.kth + kFar * learnt.step;
    off_low = kFar;
    off_high = -kFar;
    reached_low = Marks<R>::none();
    reached_high = Marks<R>::none();
  }
  __device__ void take(Real at, int off, const Marks<R>& reached) {
    const Real counted = static_cast<Real>(off);
    low = off >= 0 ? at : low;
    off_low = off >= 0 ? counted : off_low;
    reached_low = Marks<R>::either(off >= 0, reached, reached_low);
    high = off <= 0 ? at : high;
    off_high = off <= 0 ? counted : off_high;
    reached_high = Marks<R>::either(off <= 0, reached, reached_high);
  }
  [[nodiscard]] __device__ bool has_low() const { return off_low != kFar && off_low > 0; }
  [[nodiscard]] __device__ bool has_high() const { return off_high != -kFar && off_high < 0; }
  [[nodiscard]] __device__ Real width() const { return off_low - off_high; }

  /// The kth value if ranks were evenly spaced, with `farther` added to both counts.
  [[nodiscard]] __device__ Real between(Real farther) const {
    const float share = static_cast<float>(off_low + farther) * reciprocal(static_cast<float>(width() + 2 * farther));
    return low + (high - low) * static_cast<Real>(share);
  }
};

template <class T, int G, int R>
class WarpSelect {
 public:
  using Row = WarpRow<T, G, R>;
  using Lane = WarpLane<T, G, R>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Group = LaneGroup<G>;
  using Bracket = ThresholdBracket<T>;
  using Rank = WarpRank<T, G, R>;

  /// Selects from the rows of the warp. False if they are fallback rows, to be deferred.
  __device__ bool choose(const Row& row, Marks<R>& chosen) {
    const Lane lane(row);
    const int k = row.k();
    bool estimates = __any_sync(kFullWarp, !learnt_.known);
    Interval<Real, R> interval;
    Marks<R> reached;
    Real at;
    int off;
    int first_off;
    int passes = 0;
    bool unfinished;
    while (true) {
      if (estimates) estimate(row, lane);
      interval.open(learnt_);
      at = learnt_.kth;
      reached = lane.marks(threshold_at(at));
      off = Group::sum(reached.count()) - k;
      first_off = off;
      ++passes;
      unfinished = approach(lane, k, interval, at, reached, off, passes);
      if (!unfinished || estimates || learnt_.tied) break;
      // Rows differ too much from those before: estimate them by themselves.
      learnt_.known = false;
      ignore_history_ = true;
      estimates = true;
    }
    bool many_ties = false;
    Value kth;
    if (!unfinished) {
      if (__any_sync(kFullWarp, !is_finite(interval.low) || !is_finite(interval.high))) return defer();
      kth = threshold_at(interval.between(1));
      chosen = best_of(row, interval);
    } else {
      ignore_history_ = false;
      kth = threshold_at(at);
      chosen = reached;
      Bracket bracket;
      if (interval.has_low()) bracket.take(threshold_at(interval.low), static_cast<int>(interval.off_low));
      if (interval.has_high()) bracket.take(threshold_at(interval.high), static_cast<int>(interval.off_high));
      bool ties = false;
      bool few = false;
      if (!go_on(lane, k, bracket, kth, off, passes, chosen, ties, few)) return defer();
      if (__any_sync(kFullWarp, ties)) chosen = with_ties(lane, kth, bracket, ties, k, chosen, many_ties);
      if (__any_sync(kFullWarp, !is_finite(kth) || kth == E::least())) return defer();
      if (__any_sync(kFullWarp, few)) {
        interval.take(E::real(kth), 0, chosen);
        if (few) {
          interval.take(E::real(bracket.low), bracket.off_low, lane.marks(bracket.low));
          interval.take(E::real(bracket.high), bracket.off_high, lane.marks(bracket.high));
          kth = threshold_at(interval.between(1));
          // The distance between ranks near the kth value. The way from the first guess tells less about it.
          const Real step =
              (interval.high - interval.low) * static_cast<Real>(reciprocal(static_cast<float>(interval.width())));
          learnt_.step = step > 0 ? step : learnt_.step;
          first_off = 0;
        }
        chosen = best_of(row, interval);
      }
    }
    learn<T>(learnt_, kth, first_off, passes, many_ties);
    if (ignore_history_) learnt_.known = false;
    if (row.args.passes != nullptr && Group::lane() == 0) row.args.passes[row.row] = passes;
    return true;
  }

 private:
  static __device__ Value threshold_at(Real x) { return Lane::nearest(E::from_real(x)); }
  static __device__ bool is_finite(Real x) { return E::is_finite(threshold_at(x)); }

  /// The elements that reach the upper threshold, and the largest of those between the two.
  static __device__ Marks<R> best_of(const Row& row, const Interval<Real, R>& interval) {
    const Marks<R> between = interval.reached_low.without(interval.reached_high);
    return interval.reached_high | Rank::best_of(row, between, -static_cast<int>(interval.off_high));
  }

  /// Interpolates until few elements lie between the thresholds, in all rows of the warp. Each step goes a little too
  /// far, so that there is soon a threshold on either side. Returns true if a row is not done; most are.
  __device__ bool approach(const Lane& lane, int k, Interval<Real, R>& interval, Real& at, Marks<R>& reached, int& off,
                           int& passes) const {
    constexpr int kTooFar = 96;  // ranks: there are ties, or the values have another scale
    constexpr int kMaxPasses = 5;
    const int most = learnt_.tied || __any_sync(kFullWarp, abs(off) > kTooFar) ? 0 : passes + kMaxPasses;
    Real farther = 3;  // ranks
    while (true) {
      interval.take(at, off, reached);
      const bool done = interval.width() <= Real{Rank::kRanked};
      const bool unfinished = __any_sync(kFullWarp, !done);
      if (!unfinished || passes >= most) return unfinished;
      // A row that is done keeps its threshold while others of the warp go on.
      at = done ? at : interval.between(farther);
      reached = lane.marks(threshold_at(at));
      off = Group::sum(reached.count()) - k;
      ++passes;
      farther += farther;  // if that was not far enough, what was learnt is wrong
    }
  }

  /// The search if interpolation alone does not end: there are ties, or values of another scale than the learnt one.
  /// `few`: it ended with few elements in the bracket. Returns false for fallback rows.
  __device__ bool go_on(const Lane& lane, int k, Bracket& bracket, Value& threshold, int& off, int& passes,
                        Marks<R>& chosen, bool& ties, bool& few) const {
    const int most_passes = passes + 40;
    const int start = passes;
    const int first_unusual = learnt_.tied ? 3 : 5;
    Real at = E::real(threshold);
    Real step = learnt_.step;
    bracket.take(threshold, off);
    // Invariant: too many elements reach bracket.low and too few reach bracket.high, as far as these are known. A row
    // that is done has off == 0 and keeps its threshold and `chosen`.
#pragma unroll 1
    do {
      const Real stepped = at + static_cast<Real>(off) * step;
      step *= Real{4};  // so that the search reaches rows of another scale
      if (off != 0) at = bracket.is_closed() ? bracket.between() : stepped;
      Value next = threshold_at(at);
      bool is_neighbour = false;
      const int turn = passes - start + (learnt_.tied ? 1 : 3);
      if (turn >= first_unusual) {
        if (passes == most_passes) return false;
        if (takes_neighbour(turn)) {
          // NaN is at or above every threshold: without an upper threshold it would count as a tie.
          const bool nan = lane.has_nan();
          if (__any_sync(kFullWarp, off != 0 && !bracket.has_high() && nan)) return false;
          next = lane.greatest_below(bracket.high, bracket.has_high());
          is_neighbour = true;
        } else if (takes_middle(turn) && (bracket.is_closed() || turn % 8 == 1)) {
          next = Lane::nearest(bracket.middle_key());
        }
        at = off != 0 ? E::real(next) : at;
      }
      threshold = off != 0 ? next : threshold;
      const int before = off;
      const Marks<R> marks = lane.marks(threshold);
      const bool found = ties || few;
      chosen = Marks<R>::either(found, chosen, marks);
      off = Group::sum(marks.count()) - k;
      off = found ? 0 : off;
      // The neighbour is the kth value, with ties: too many elements reach it, too few the threshold above it.
      ties = ties || (is_neighbour && before != 0 && off > 0);
      off = ties ? 0 : off;
      bracket.take(threshold, off);
      few = few || (off != 0 && bracket.is_closed() && bracket.off_low - bracket.off_high <= Rank::kRanked &&
                    E::is_finite(bracket.low) && E::is_finite(bracket.high));
      off = few ? 0 : off;
      ++passes;
    } while (__any_sync(kFullWarp, off != 0));
    return true;
  }

  /// Sets the expectation for rows about which nothing was learnt.
  __device__ void estimate(const Row& row, const Lane& lane) {
    Learnt<Real> own = lane.expected(row);
    own.tied = learnt_.tied;  // the same in all lanes, because all must take the same steps
    if (!learnt_.known) learnt_ = own;
  }

  __device__ bool defer() {
    learnt_.known = false;
    return false;
  }

  /// The elements above the ties, and the first of the ties.
  static __device__ Marks<R> with_ties(const Lane& lane, Value threshold, const Bracket& bracket, bool ties, int k,
                                       const Marks<R>& chosen, bool& many) {
    const Marks<R> none = Marks<R>::none();
    const Marks<R> over = Marks<R>::either(bracket.has_high(), lane.marks(bracket.high), none);
    const Marks<R> above = Marks<R>::either(ties, over, chosen);
    const Marks<R> equal = Marks<R>::either(ties, lane.marks(threshold).without(above), none);
    many = __any_sync(kFullWarp, Group::sum(equal.count()) > Rank::kRanked);
    return above | Row::first_in_index_order(equal, bracket.has_high() ? -bracket.off_high : k);
  }

  Learnt<Real> learnt_;
  bool ignore_history_ = false;  ///< Rows differ too much: estimate each one by itself.
};

/// Searches the tiles that were deferred.
template <class T, int G, int R, Ordering kOrdering>
__device__ void search_tiles(const WarpTiles<T, G, R>& tiles, unsigned numbers) {
  core::KeyOf<T> hint = core::max_key<T> / 2;
  tiles.for_some(numbers,
                 [&](const WarpRow<T, G, R>& row) { WarpSearch<T, G, R>::template select<kOrdering>(row, hint); });
}

/// Blocks on a multiprocessor of sm_90, by the registers that a kernel needs.
template <class T, int G, int R, WarpTask kTask>
constexpr int blocks_per_multiprocessor() {
  if (kTask == WarpTask::select_in_order) {
    // A lane sorts sixteen or eight words, beside what the search keeps meanwhile.
    const int most = std::is_integral_v<T> && R == 32 ? 4 : sizeof(T) == 2 && R == 64 && G <= 8 ? 5 : 6;
    return std::min(most, WarpConfig<T, G, R>::kBlocksPerMultiprocessor);
  }
  if (kTask == WarpTask::bisect && sizeof(T) < 8 && R > 32) return 4;  // one element in each register
  return WarpConfig<T, G, R>::kBlocksPerMultiprocessor;
}

template <class T, int G, int R, WarpTask kTask>
__global__ void __launch_bounds__(32 * kWarpsPerBlock, (blocks_per_multiprocessor<T, G, R, kTask>()))
    warp_kernel(const __grid_constant__ SelectArguments args) {
  extern __shared__ __align__(128) char shared[];
  const WarpTiles<T, G, R> tiles(args, shared);
  tiles.pad();
  if constexpr (kTask == WarpTask::bisect) {
    tiles.for_each([&](const WarpRow<T, G, R>& row, int) { WarpSearch<T, G, R>::bisect(row); });
  } else {
    WarpSelect<T, G, R> rows;
    unsigned deferred = 0;
    constexpr bool kOrders = kTask == WarpTask::select_in_order;
    tiles.for_each([&](const WarpRow<T, G, R>& row, int number) {
      Marks<R> chosen;
      // After three tiles with fallback rows the fast search is not tried any more.
      if (__popc(deferred) >= 3 || !rows.choose(row, chosen)) {
        deferred |= 1u << number;
      } else {
        write_chosen<kOrders ? Ordering::fast : Ordering::none>(row, chosen);
      }
    });
    if (deferred != 0) search_tiles<T, G, R, kOrders ? Ordering::in_place : Ordering::none>(tiles, deferred);
  }
}

}  // namespace rtopk::cuda
