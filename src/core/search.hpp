// The searches for the threshold of a row, shared by host and device. Each search is a small state machine: it says
// where to count next, the backend counts, and records the count.
#pragma once

#include <cstdint>

#include <rtopk/types.hpp>

#include "core/attributes.hpp"

namespace rtopk::core {

// ---------------------------------------------------------------------------------------------------------------------
// The library's own exact search, over directed keys.

// Count is an integer type that can hold the number of columns.

/// An interval of keys that contains the kth value: count(low) >= k, and count(key) < k for every key > high.
template <class Key, class Count = std::int64_t>
struct Bracket {
  Key low;
  Key high;
  Count count_low;    ///< Elements >= `low`.
  Count count_above;  ///< Elements > `high`; fewer than k.
};

/// The threshold of a selection. If count == k, all elements >= key are selected. If count > k, key is the kth value
/// and has ties: all elements > key are selected, and of those equal to key the first k - count_above.
template <class Key, class Count = std::int64_t>
struct Threshold {
  Key key;
  Count count;        ///< Elements >= `key`; at least k.
  Count count_above;  ///< Valid if count > k: elements > `key`; fewer than k.
  std::int32_t passes;
};

/// Searches for the threshold of the k greatest keys:
///
///   ThresholdSearch<Key> search(bracket, k);
///   while (!search.done()) {
///     if (search.is_stuck()) {
///       search.narrow(/* least and greatest key of the elements in the bracket */);
///     } else {
///       const Key probe = search.probe(proposal);
///       search.record(probe, /* elements >= probe */ count(probe));
///     }
///   }
///   use(search.result());
///
/// Invariant: the kth value is in the bracket, and count_low and count_above are exact counts. record() keeps it: a
/// probe with count >= k becomes the new low; with count < k, probe - 1 becomes the new high.
///
/// The search is stuck if the last probe did not split the elements of the bracket: it hit a gap, or equal values.
/// narrow() shrinks the bracket to the elements in it, so that rows with few distinct values need few passes. It is
/// optional.
///
/// Any proposal is safe: probe() clamps it to the bracket. If three passes in a row have not halved the bracket, the
/// next probe is its middle. This bounds the search to 4 * bits passes.
template <class Key, class Count = std::int64_t>
class ThresholdSearch {
 public:
  RTOPK_HD constexpr ThresholdSearch(const Bracket<Key, Count>& everything, Count k)
      : bracket_(everything), k_(k), width_to_halve_(everything.high - everything.low) {}

  [[nodiscard]] RTOPK_HD constexpr bool done() const {
    return bracket_.low == bracket_.high || bracket_.count_low == k_;
  }

  [[nodiscard]] RTOPK_HD constexpr const Bracket<Key, Count>& bracket() const { return bracket_; }

  /// The key to count next, as close as possible to the caller's proposal.
  [[nodiscard]] RTOPK_HD constexpr Key probe(Key proposal) const {
    if (passes_since_halved_ >= 3) return static_cast<Key>(bracket_.low + (bracket_.high - bracket_.low) / 2 + 1);
    if (proposal <= bracket_.low) return static_cast<Key>(bracket_.low + 1);
    return proposal < bracket_.high ? proposal : bracket_.high;
  }

  RTOPK_HD constexpr void record(Key probe, Count counted) {
    ++passes_;
    is_stuck_ = counted == bracket_.count_low || counted == bracket_.count_above;
    if (counted >= k_) {
      bracket_.low = probe;
      bracket_.count_low = counted;
    } else {
      bracket_.high = static_cast<Key>(probe - 1);
      bracket_.count_above = counted;
    }
    const Key width = static_cast<Key>(bracket_.high - bracket_.low);
    if (width <= width_to_halve_ / 2) {
      width_to_halve_ = width;
      passes_since_halved_ = 0;
    } else {
      ++passes_since_halved_;
    }
  }

  [[nodiscard]] RTOPK_HD constexpr bool is_stuck() const { return is_stuck_; }

  /// Records that all elements of the bracket are in [low, high].
  RTOPK_HD constexpr void narrow(Key low, Key high) {
    ++passes_;
    bracket_.low = low;
    bracket_.high = high;
    is_stuck_ = false;
  }

  [[nodiscard]] RTOPK_HD constexpr Threshold<Key, Count> result() const {
    return {bracket_.low, bracket_.count_low, bracket_.count_above, passes_};
  }

 private:
  Bracket<Key, Count> bracket_;
  Count k_;
  Key width_to_halve_;
  std::int32_t passes_since_halved_ = 0;
  std::int32_t passes_ = 0;
  bool is_stuck_ = false;
};

// ---------------------------------------------------------------------------------------------------------------------
// The paper's searches, over values. Every operation rounds separately: no backend may use fused multiply-add.

[[nodiscard]] RTOPK_HD inline float midpoint(float low, float high) noexcept {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(__fmul_rn(0.5f, low), __fmul_rn(0.5f, high));
#else
  return 0.5f * low + 0.5f * high;
#endif
}

[[nodiscard]] RTOPK_HD inline double midpoint(double low, double high) noexcept {
#if defined(__CUDA_ARCH__)
  return __dadd_rn(__dmul_rn(0.5, low), __dmul_rn(0.5, high));
#else
  return 0.5 * low + 0.5 * high;
#endif
}

/// The elements that a bisection selects: all elements >= `sure`, then elements >= `fill` in index order, until there
/// are k. If `fill_only`, the first part is empty.
template <class Real>
struct Selection {
  Real fill;
  Real sure;
  bool fill_only;
  std::int64_t count_sure;  ///< Elements >= `sure`; fewer than k.
  std::int32_t passes;
};

/// The paper's bisection between the least and the greatest value of a row. All values must be finite.
///
/// Invariant: count(low) >= k. Also count(high) < k, unless high is still the greatest value, which was not counted.
///
///   Bisection<Real> search(least, greatest, k, max_iter, rule, epsilon);
///   while (search.next()) search.record(/* elements >= middle */ count(search.middle()));
///   use(search.selection());
template <class Real, class Count = std::int64_t>
class Bisection {
 public:
  /// Algorithm 2 if max_iter > 0, else Algorithm 1, whose rule is that of a threshold first.
  RTOPK_HD Bisection(Real least, Real greatest, Count k, std::int32_t max_iter, Rule rule, double epsilon)
      : low_(least),
        high_(greatest),
        k_(k),
        max_iter_(max_iter),
        threshold_first_(max_iter == 0 || rule == Rule::threshold_first) {
    const Real magnitude = greatest < 0 ? -greatest : greatest;
    width_ = static_cast<Real>(epsilon) * magnitude;  // a single product: nothing to fuse
  }

  /// Starts the next pass, at middle(). False if the search is finished.
  [[nodiscard]] RTOPK_HD bool next() {
    if (max_iter_ > 0) {
      if (passes_ == max_iter_) return false;
      // Exactly k elements are >= low: further passes would select the same ones. This does not hold for low == high,
      // where the rounded halves of a subnormal number can move the midpoint below low.
      if (passes_ > 0 && counted_ == k_ && low_ < high_) return false;
    } else {
      if (!(high_ - low_ > width_) || (passes_ > 0 && counted_ == k_)) return false;
    }
    middle_ = midpoint(low_, high_);
    // Stop if the midpoint is an end that was counted already: the interval cannot shrink any more. If passes are left,
    // they would all have this end as their threshold.
    const bool at_low = middle_ == low_;
    const bool at_high = middle_ == high_ && high_is_counted_;
    if (max_iter_ > 0 && (at_low || at_high)) last_is_low_ = at_low;
    return !at_low && !at_high;
  }

  [[nodiscard]] RTOPK_HD Real middle() const { return middle_; }

  RTOPK_HD void record(Count counted) {
    ++passes_;
    counted_ = counted;
    last_is_low_ = counted >= k_;
    if (last_is_low_) {
      low_ = middle_;
    } else {
      high_ = middle_;
      high_is_counted_ = true;
      count_high_ = counted;
    }
  }

  [[nodiscard]] RTOPK_HD Selection<Real> selection() const {
    const bool fill_only = !threshold_first_ || last_is_low_;
    return {low_, high_, fill_only, fill_only ? 0 : count_high_, passes_};
  }

 private:
  Real low_;
  Real high_;
  Real middle_{};
  Real width_;
  Count k_;
  Count counted_ = 0;     ///< Count of the last pass.
  Count count_high_ = 0;  ///< Valid if high is counted.
  std::int32_t max_iter_;
  std::int32_t passes_ = 0;
  bool threshold_first_;
  bool high_is_counted_ = false;  ///< False while high is the maximum of the row.
  bool last_is_low_ = true;       ///< The last threshold is low, not high.
};

/// The selection of a bisection that stops early, without its passes: at least k elements are at or above a middle exactly
/// where that is at most the kth value. All values of the row must be finite. `options` has max_iter, rule and epsilon.
/// `count_sure` and `passes` of the result are not set.
template <class Options, class Real>
[[nodiscard]] RTOPK_HD Selection<Real> selection_of_kth(const Options& options, Real least, Real greatest, Real kth) {
  if (options.max_iter > 0) {
    // A search whose interval cannot shrink any more stays where it is: all passes can be made.
    Real low = least;
    Real high = greatest;
    bool up = true;
    RTOPK_ROLLED
    for (int i = 0; i < options.max_iter; ++i) {
      const Real middle = midpoint(low, high);
      up = kth >= middle;
      low = up ? middle : low;
      high = up ? high : middle;
    }
    return {low, high, up || options.rule != Rule::threshold_first, 0, 0};
  }
  // With a k of 1, two elements are "more" and none is "fewer".
  Bisection<Real, int> search(least, greatest, 1, options.max_iter, options.rule, options.epsilon);
  RTOPK_ROLLED
  while (search.next()) search.record(kth >= search.middle() ? 2 : 0);
  return search.selection();
}

}  // namespace rtopk::core
