// cuda_warp: rows of up to 1024 elements, one for each group of G lanes, R elements of it in the registers of each lane.
//
// A warp takes its rows in turn (warp_tiles.cuh). It looks for a threshold that exactly k elements reach (border_search.cuh).
// The few rows that resist are put off to the end, and searched by keys (warp_search.cuh).
#pragma once

#include "row_marks.cuh"
#include "warp_search.cuh"
#include "warp_select_packed.cuh"
#include "warp_tiles.cuh"

namespace rtopk::cuda {

/// What a kernel is compiled for: calls that are seldom needed would cost the others registers.
enum class WarpTask { select, select_in_order, bisect };

template <class T, int G, int R>
class WarpSelect {
 public:
  using Row = WarpRow<T, G, R>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Group = LaneGroup<G>;
  using Bracket = ThresholdBracket<T>;

  /// Chooses from the rows of the warp. False if they must be put off.
  __device__ bool choose(const Row& row, unsigned& chosen) {
    Value x[R];
    row.load(x);
    const bool estimated = __any_sync(kWholeWarp, !learnt_.known);
    if (estimated) estimate(row, x);
    const int k = row.k();
    Real at = learnt_.border;
    chosen = marks_of<T>(x, E::from_real(at));
    int off = Group::sum(__popc(chosen)) - k;
    const int first_off = off;
    int passes = 1;

    // Interpolation between thresholds of which one or both were never counted, but lie so far off that the first steps are as
    // long as what was learnt says. Most rows end here.
    constexpr Real kFar = 127.5;  // ranks; not a whole number, so that it is told from what was counted
    constexpr Real kNear = 31.5;
    constexpr int kFirstPasses = 4;
    constexpr int kFastPasses = 10;
    constexpr int kTooFar = 96;  // ranks: there are ties, or the scale is altogether another one
    Real low = at - kFar * learnt_.step;
    Real high = at + kFar * learnt_.step;
    Real off_low = kFar;
    Real off_high = -kFar;
    int most = learnt_.tied || __any_sync(kWholeWarp, abs(off) > kTooFar) ? 0 : kFirstPasses;
    bool unfinished = __any_sync(kWholeWarp, off != 0);
    while (unfinished && passes < most) {
      do {
        const Real counted = static_cast<Real>(off);
        low = off > 0 ? at : low;
        off_low = off > 0 ? counted : off_low;
        high = off < 0 ? at : high;
        off_high = off < 0 ? counted : off_high;
        const float share = static_cast<float>(off_low) * reciprocal(static_cast<float>(off_low - off_high));
        const Real between = low + (high - low) * static_cast<Real>(share);
        at = off != 0 ? between : at;  // a row that is done stays where it is while others of the warp go on
        chosen = marks_of<T>(x, E::from_real(at));
        off = Group::sum(__popc(chosen)) - k;
        ++passes;
        unfinished = __any_sync(kWholeWarp, off != 0);
      } while (unfinished && passes < most);
      // A threshold that is still not counted is approached in steps that are too short.
      off_low = off_low == kFar ? kNear : off_low;
      off_high = off_high == -kFar ? -kNear : off_high;
      most = kFastPasses;
    }
    Value threshold = E::from_real(at);
    bool any_ties = false;
    if (unfinished) {
      Bracket bracket;
      lonely_ = !estimated && !learnt_.tied;
      if (lonely_) {
        // The rows are nothing like those before them: they are asked themselves.
        learnt_.known = false;
        estimate(row, x);
        threshold = E::from_real(learnt_.border);
        chosen = marks_of<T>(x, threshold);
        off = Group::sum(__popc(chosen)) - k;
        ++passes;
      } else {
        if (off_low != kFar && off_low != kNear) bracket.take(E::from_real(low), static_cast<int>(off_low));
        if (off_high != -kFar && off_high != -kNear) bracket.take(E::from_real(high), static_cast<int>(off_high));
      }
      bool ties = false;
      if (!go_on(x, k, bracket, threshold, off, passes, chosen, ties)) return put_off();
      any_ties = __any_sync(kWholeWarp, ties);
      if (any_ties) chosen = with_ties(x, threshold, bracket, ties, k, chosen);
    }
    if (__any_sync(kWholeWarp, !E::is_finite(threshold) || threshold == E::least())) return put_off();
    learn<T>(learnt_, threshold, first_off, passes, any_ties);
    if (lonely_) learnt_.known = false;
    if (row.call.passes != nullptr && Group::lane() == 0) row.call.passes[row.row] = passes;
    return true;
  }

 private:
  /// The search where interpolation alone does not do: with ties, or values of another scale than what was learnt.
  __device__ bool go_on(const Value (&x)[R], int k, Bracket& bracket, Value& threshold, int& off, int& passes,
                        unsigned& chosen, bool& ties) const {
    const int most_passes = passes + 40;
    const int start = passes;
    Real at = E::real(threshold);
    Real step = learnt_.step;
#pragma unroll 1
    do {
      bracket.take(threshold, off);
      const Real stepped = at + static_cast<Real>(off) * step;
      step *= Real{1.5};  // so that a row of another scale is caught up with
      if (off != 0) at = bracket.is_closed() ? bracket.between() : stepped;
      Value next = E::from_real(at);
      bool is_neighbour = false;
      const int turn = passes - start + (start == 1 || lonely_ ? 1 : 3);
      if (turn >= first_unusual_pass<T>(learnt_.tied)) {
        if (passes == most_passes) return false;
        if (takes_neighbour(turn)) {
          // A NaN is at or above every threshold, so without an upper one it would pass for a tie.
          const bool nan = has_nan(x);
          if (__any_sync(kWholeWarp, off != 0 && !bracket.has_high() && nan)) return false;
          next = greatest_below(x, bracket.high, bracket.has_high());
          is_neighbour = true;
        } else if (takes_middle(turn)) {
          next = bracket.middle_key();
        }
        at = off != 0 ? E::real(next) : at;
      }
      threshold = off != 0 ? next : threshold;
      const int before = off;
      const unsigned marks = marks_of<T>(x, threshold);
      chosen = ties ? chosen : marks;
      off = Group::sum(__popc(marks)) - k;
      // Too few elements reach what is above the neighbour, too many the neighbour itself.
      ties = ties || (is_neighbour && before != 0 && off > 0);
      off = ties ? 0 : off;
      ++passes;
    } while (__any_sync(kWholeWarp, off != 0));
    return true;
  }

  static __device__ bool has_nan(const Value (&x)[R]) {
    bool found = false;
#pragma unroll
    for (int r = 0; r < R; ++r) found = found || E::is_nan(x[r]);
    return Group::any(found);
  }

  static __device__ Value greatest_below(const Value (&x)[R], Value high, bool has_high) {
    Value greatest = E::least();
#pragma unroll
    for (int r = 0; r < R; ++r) greatest = (x[r] < high || !has_high) && x[r] > greatest ? x[r] : greatest;
    return E::from_sort_key(Group::greatest(E::sort_key(greatest)));
  }

  /// What is to be expected of rows of which nothing was learnt.
  __device__ void estimate(const Row& row, const Value (&x)[R]) {
    Learnt<Real> own = expected(row, x);
    own.tied = learnt_.tied;  // the same in all lanes, as the steps of the search must be
    if (!learnt_.known) learnt_ = own;
  }

  static __device__ Learnt<Real> expected(const Row& row, const Value (&x)[R]) {
    constexpr int kNumber = R / 2;  // enough for an estimate
    const Real pivot = E::real(x[0]);
    Real sum = 0;
    Real squares = 0;
#pragma unroll
    for (int i = 1; i < kNumber; ++i) {
      const Real distance = E::real(x[2 * i]) - pivot;
      sum += distance;
      squares += distance * distance;
    }
    const bool whole = Row::col_of(R - 1) < row.cols() && E::is_finite(x[0]);
    squares = whole ? squares : static_cast<Real>(INFINITY);
    return expected_from_lanes<G>(row.call.expectation, pivot, sum, squares, kNumber);
  }

  __device__ bool put_off() {
    learnt_.known = false;
    return false;
  }

  /// What is above the ties, and the first of them.
  static __device__ unsigned with_ties(const Value (&x)[R], Value threshold, const Bracket& bracket, bool ties, int k,
                                       unsigned chosen) {
    const unsigned reached = marks_of<T>(x, threshold);
    const unsigned above = ties ? (bracket.has_high() ? marks_of<T>(x, bracket.high) : 0u) : chosen;
    return above | Row::first_in_index_order(ties ? reached & ~above : 0u, bracket.has_high() ? -bracket.off_high : k);
  }

  Learnt<Real> learnt_;
  bool lonely_ = false;  ///< Rows have nothing in common: each is asked itself where its border may be.
};

/// The tiles that were put off.
template <class T, int G, int R, bool kOrders>
__device__ void search_tiles(const WarpTiles<T, G, R>& tiles, unsigned numbers) {
  core::KeyOf<T> hint = core::max_key<T> / 2;
  tiles.for_some(numbers,
                 [&](const WarpRow<T, G, R>& row) { WarpSearch<T, G, R>::template select<kOrders>(row, hint); });
}

/// Blocks of a multiprocessor of sm_90, by the registers that a kernel needs.
template <class T, int G, int R, WarpTask kTask>
constexpr int blocks_per_multiprocessor() {
  if (kTask == WarpTask::select_in_order) return sizeof(T) == 8 ? 2 : 4;
  return WarpShape<T, G, R>::kBlocksPerMultiprocessor;
}

template <class T, int G, int R, WarpTask kTask>
__global__ void __launch_bounds__(32 * kWarpsPerBlock, (blocks_per_multiprocessor<T, G, R, kTask>()))
    warp_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(128) char shared[];
  const WarpTiles<T, G, R> tiles(call, shared);
  tiles.pad();
  if constexpr (kTask == WarpTask::bisect) {
    tiles.for_each([&](const WarpRow<T, G, R>& row, int) { WarpSearch<T, G, R>::bisect(row); });
  } else {
    std::conditional_t<sizeof(T) == 2, WarpSelectPacked<T, G, R>, WarpSelect<T, G, R>> rows;
    unsigned put_off = 0;
    constexpr bool kOrders = kTask == WarpTask::select_in_order;
    tiles.for_each([&](const WarpRow<T, G, R>& row, int number) {
      unsigned chosen = 0;
      // After three that resist, the others are not even tried.
      if (__popc(put_off) >= 3 || !rows.choose(row, chosen)) {
        put_off |= 1u << number;
      } else {
        row.template write<kOrders>(chosen);
      }
    });
    if (put_off != 0) search_tiles<T, G, R, kOrders>(tiles, put_off);
  }
}

}  // namespace rtopk::cuda
