// cuda_warp: rows of up to 2048 elements (1024 of f64), one for each group of G lanes, with R elements in the registers
// of each lane.
//
// A warp works through its batch tile by tile (tiles.cuh). In each row it looks for a threshold that exactly k elements
// reach: by what the rows before have taught (counting_search.cuh), and if that does not end soon, from the row alone.
#pragma once

#include "cuda/select/warp/aligned_row.cuh"
#include "cuda/select/warp/early.cuh"
#include "cuda/select/warp/early_search.cuh"
#include "cuda/select/warp/lane.cuh"
#include "cuda/select/warp/rank.cuh"

namespace rtopk::cuda {

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

template <class Row>
class WarpSelect {
 public:
  using T = typename Row::Type;
  using Lane = WarpLane<Row>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Group = typename Row::Group;
  using Rank = WarpRank<Row>;
  static constexpr int G = Group::kLanes;
  static constexpr int R = Row::kElements;

  /// Selects from the rows of the warp.
  __device__ Marks<R> choose(const Row& row) {
    const Lane lane(row);
    const int k = row.k();
    bool estimates = __any_sync(kFullWarp, !learnt_.known);
    Interval<Real, R> interval;
    int first_off;
    int passes = 0;
    bool unfinished;
    while (true) {
      if (estimates) estimate(row, lane);
      interval.open(learnt_);
      Real at = learnt_.kth;
      Marks<R> reached = lane.marks(threshold_at(at));
      int off = Group::sum(reached.count()) - k;
      first_off = off;
      ++passes;
      unfinished = approach(lane, k, interval, at, reached, off, passes);
      if (!unfinished || estimates || estimates_fail_) break;
      // Rows differ too much from those before: estimate them by themselves.
      learnt_.known = false;
      ignore_history_ = true;
      estimates = true;
    }
    bool unlike = false;  // neither the rows before nor an estimate tell where the kth value is
    Value kth;
    Marks<R> chosen;
    const bool finite = is_finite(interval.low) && is_finite(interval.high);
    if (__any_sync(kFullWarp, unfinished || !finite)) {
      ignore_history_ = false;
      unlike = !estimates;
      estimates_fail_ = true;
      chosen = narrow(row, lane, interval, kth, passes);
      first_off = 0;
    } else {
      kth = threshold_at(interval.between(1));
      chosen = best_of(row, interval);
    }
    learn<T>(learnt_, kth, first_off, passes, unlike);
    if (ignore_history_) learnt_.known = false;
    if (row.args.passes != nullptr && Group::lane() == 0) row.args.passes[row.row] = row.passes_of(passes);
    return chosen;
  }

  /// What a bisection selects that stops early.
  __device__ Marks<R> stop_early(const Row& row) {
    Marks<R> chosen;
    const bool found = WarpEarlySearch<Row>::takes(row.args) && WarpEarlySearch<Row>::choose(row, learnt_, chosen);
    if (!found) chosen = stopped_early(row, choose(row));
    return chosen;
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
    constexpr int kMaxPasses = 4;
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

  /// Some elements of a row between two thresholds, sorted: what is at a rank among them is near the same rank of all.
  class Sample {
   public:
    using SortKey = typename E::SortKey;

    __device__ Sample(const Row& row, Marks<R> between) {
      const int mine = min(between.count(), kPerLane);
      number_ = Group::sum(mine);
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) {
        // From either end, because the elements of a lane may be in order.
        const int r = between.pop(j % 2 == 0);
        const SortKey key = min(E::sort_key(row.value_at(j < mine ? r : 0)), E::sort_key(E::greatest()));
        keys_[j] = j < mine ? key : 0;
      }
      Group::sort_descending(keys_);
    }

    /// The thresholds that are likely to have the element of this rank, a share of all, between them. Both are elements,
    /// or the upper one is the next value.
    __device__ void around(float share, Value& low, Value& high) const {
      const auto number = static_cast<float>(number_);
      const float at = share * number - 0.5f;
      const float margin = square_root(number * share * (1.0f - share)) + 0.5f;
      low = value(static_cast<int>(ceilf(at + margin)));
      high = value(static_cast<int>(floorf(at - margin)));
      if (!(low < high)) high = low < E::greatest() ? Lane::next(low) : low;
    }

    /// `left`: the elements that it was taken from.
    [[nodiscard]] __device__ bool is_small(int left) const { return 2 * number_ < min(left, G * kPerLane); }

   private:
    static constexpr int kPerLane = G >= 16 ? 32 / G : G == 8 ? 2 : 8 / G;

    [[nodiscard]] __device__ Value value(int rank) const {
      return E::from_sort_key(Group::at_rank(keys_, max(0, min(rank, number_ - 1))));
    }

    SortKey keys_[kPerLane];
    int number_;
  };

  /// The search if interpolation did not end: there are ties, infinities, or values spread in an unusual way. Thresholds
  /// come from a sample of what is left between the last two, so that only the order of the elements matters. They are
  /// elements: each turn leaves fewer.
  __device__ Marks<R> narrow(const Row& row, const Lane& lane, const Interval<Real, R>& interval, Value& kth,
                             int& passes) {
    const int k = row.k();
    const bool was_exact = interval.width() == 0;
    // All elements reach the least value, and NaN, to which an overflow may lead: such a threshold tells nothing.
    const bool has_low = was_exact || (interval.has_low() && E::least() < threshold_at(interval.low));
    bool has_high = was_exact || interval.has_high();
    // Invariant: `low` <= kth value, and < `high` if there is one.
    ThresholdBracket<T> bracket;
    bracket.low = has_low ? threshold_at(interval.low) : E::least();
    bracket.off_low = has_low ? static_cast<int>(interval.off_low) : row.cols() - k;
    bracket.high = threshold_at(interval.high);
    bracket.off_high = has_high ? static_cast<int>(interval.off_high) : -k;
    Marks<R> reached_low = lane.inside(row) & Marks<R>::either(has_low, interval.reached_low, Marks<R>::first(R));
    Marks<R> reached_high = lane.inside(row) & Marks<R>::either(has_high, interval.reached_high, Marks<R>::none());
    const auto count = [&](Value at, bool counts) {
      const Marks<R> reached = lane.marks(at) & lane.inside(row);
      const int off = Group::sum(reached.count()) - k;
      ++passes;
      if (counts && off >= 0 && !(at < bracket.low)) {
        bracket.low = at;
        bracket.off_low = off;
        reached_low = reached;
      }
      if (counts && off < 0 && !(has_high && bracket.high < at)) {
        bracket.high = at;
        bracket.off_high = off;
        reached_high = reached;
        has_high = true;
      }
    };
    bool tied = false;
    bool done = bracket.off_low == 0 || is_narrow(bracket);
    while (__any_sync(kFullWarp, !done)) {
      const Sample sample(row, reached_low.without(reached_high));
      const float share = (static_cast<float>(-bracket.off_high) - 0.5f) *
                          reciprocal(static_cast<float>(bracket.off_low - bracket.off_high));
      Value low;
      Value high;
      sample.around(share, low, high);
      // Where most of what is left belongs to few lanes, as in sorted rows, a sample tells little.
      if (has_high && sample.is_small(bracket.off_low - bracket.off_high)) {
        const Value even = threshold_at(bracket.between());
        const Value middle = Lane::nearest(bracket.middle_key());
        // In few bits the middle may be an end. Then the sample, which may tell that what is left is tied, ends sooner.
        const bool splits = bracket.low < middle && middle < bracket.high;
        high = splits && bracket.low < even && even < bracket.high ? even : high;
        low = splits ? middle : low;
      }
#pragma unroll 1
      for (int side = 0; side < 2; ++side) count(side == 0 ? high : low, !done);
      tied = has_high && !(Lane::next(bracket.low) < bracket.high);
      done = bracket.off_low == 0 || tied || is_narrow(bracket) || !(bracket.low < E::greatest());
    }
    const bool exact = bracket.off_low == 0;
    if (__any_sync(kFullWarp, !exact && !has_high)) count(E::greatest(), !exact && !has_high);
    const bool top = !exact && !(bracket.low < E::greatest());  // the kth value is the greatest of all, or NaN
    tied = tied && !exact && !top;
    if (!exact && !tied && !top) {
      const Real step = (E::real(bracket.high) - E::real(bracket.low)) *
                        static_cast<Real>(reciprocal(static_cast<float>(bracket.off_low - bracket.off_high)));
      if (step > 0 && E::is_finite(bracket.high)) learnt_.step = step;
    }
    const bool between = !exact && !tied && !top && E::is_finite(bracket.high);
    kth = between ? threshold_at(bracket.between()) : bracket.low;
    return chosen_of(row, lane, bracket.low, exact ? 0 : -bracket.off_high, reached_low,
                     Marks<R>::either(exact, reached_low, reached_high), tied, top);
  }

  /// Few elements are left between the thresholds, and none of them is a NaN that was made the least value.
  static __device__ bool is_narrow(const ThresholdBracket<T>& bracket) {
    return bracket.off_low - bracket.off_high <= Rank::kRanked && E::is_finite(bracket.low);
  }

  /// What the search above found: the elements that reach the upper threshold, and `number` of those that reach `low`.
  /// `tied`: these are all equal. `top`: they are the greatest value, or NaN.
  static __device__ Marks<R> chosen_of(const Row& row, const Lane& lane, Value low, int number,
                                       const Marks<R>& reached_low, const Marks<R>& reached_high, bool tied, bool top) {
    const int k = row.k();
    const Marks<R> none = Marks<R>::none();
    const bool ties = tied || top;
    Marks<R> above = reached_high;
    Marks<R> equal = reached_low.without(above);
    if (__any_sync(kFullWarp, top)) {
      const Marks<R> nans = lane.nans();
      const int count = Group::sum(nans.count());
      const bool only = count >= k;
      equal = Marks<R>::either(top, Marks<R>::either(only, nans, reached_low.without(nans)), equal);
      above = Marks<R>::either(top, Marks<R>::either(only, none, nans), above);
      number = top ? (only ? k : k - count) : number;
    }
    // For `smallest` NaN was made the least value, where it must come after infinities.
    const bool bottom = tied && low == E::least() && row.args.smallest;
    if (__any_sync(kFullWarp, bottom)) {
      const Marks<R> nans = nans_of(row);
      const int before = Group::sum(equal.without(nans).count());
      const bool not_enough = bottom && before < number;
      above = Marks<R>::either(not_enough, above | equal.without(nans), above);
      equal = Marks<R>::either(bottom, Marks<R>::either(not_enough, equal & nans, equal.without(nans)), equal);
      number -= not_enough ? before : 0;
    }
    const Marks<R> first = first_in_index_order<G>(Marks<R>::either(ties, equal, none), number);
    if (!__any_sync(kFullWarp, !ties)) return above | first;
    return above | first | Rank::best_of(row, Marks<R>::either(ties, none, equal), ties ? 0 : number);
  }

  /// NaN among the original elements.
  static __device__ Marks<R> nans_of(const Row& row) {
    Marks<R> nans = Marks<R>::none();
    const Marks<R> inside = row.inside();
    inside.for_each([&](int, int, int r) {
      if (core::key_of(row.element_at(r)) == core::max_key<T>) nans.add(r);
    });
    return nans;
  }

  /// Sets the expectation for rows about which nothing was learnt.
  __device__ void estimate(const Row& row, const Lane& lane) {
    Learnt<Real> own = lane.expected(row);
    own.tied = learnt_.tied;  // the same in all lanes, because all must take the same steps
    if (!learnt_.known) learnt_ = own;
  }

  Learnt<Real> learnt_;
  bool ignore_history_ = false;  ///< Rows differ too much: estimate each one by itself.
  bool estimates_fail_ = false;  ///< They were too far off to help.
};

}  // namespace rtopk::cuda
