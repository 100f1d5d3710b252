// The searches for a row's threshold, written once for host and device. Each is a small state machine: it says where to
// count next, the backend counts, and tells it the result.
#pragma once

#include <cstdint>

#include "core/attributes.hpp"

namespace rtopk::core {

// ---------------------------------------------------------------------------------------------------------------------
// The library's own exact search, over directed keys.

// Count is a type that has room for the number of columns.

/// The threshold lies in [low, high]: count(low) >= k, and count(key) < k for every key > high.
template <class Key, class Count = std::int64_t>
struct Bracket {
  Key low;
  Key high;
  Count count_low;    ///< Elements at or above `low`.
  Count count_above;  ///< Elements above `high`, fewer than k.
};

/// A threshold for k elements: `key` with count == k, or, where equal values straddle the border, the k-th value itself
/// with count > k; then the first k - (elements above key) of the elements equal to it are selected.
template <class Key, class Count = std::int64_t>
struct Threshold {
  Key key;
  Count count;        ///< Elements at or above `key`, at least k.
  Count count_above;  ///< If count > k: elements above `key`, fewer than k.
  std::int32_t passes;
};

/// Finds the threshold of the k-th greatest key:
///
///   ThresholdSearch<Key> search(bracket, k);
///   while (!search.done()) {
///     if (search.is_stuck()) {
///       search.narrow(/* least and greatest key in the bracket */);
///     } else {
///       const Key probe = search.probe(proposal);
///       search.record(probe, /* elements at or above */ count(probe));
///     }
///   }
///   use(search.result());
///
/// A search is stuck when it has probed where no elements are: among equal values, or in a gap. Narrowing takes it from
/// there to the elements themselves, so that rows of few distinct values need few passes. It may be left out.
///
/// Proposals may be anything; they cannot make the result wrong. A proposal is moved into the bracket, and after three
/// passes that have not halved the bracket the next one halves it, so that there are at most 4 * bits passes.
template <class Key, class Count = std::int64_t>
class ThresholdSearch {
 public:
  RTOPK_HD constexpr ThresholdSearch(const Bracket<Key, Count>& everything, Count k)
      : bracket_(everything), k_(k), width_to_halve_(everything.high - everything.low) {}

  [[nodiscard]] RTOPK_HD constexpr bool done() const {
    return bracket_.low == bracket_.high || bracket_.count_low == k_;
  }

  [[nodiscard]] RTOPK_HD constexpr const Bracket<Key, Count>& bracket() const { return bracket_; }

  /// Where to count next, given where the caller would.
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

  /// Takes in that no element of the bracket is below `low` or above `high`.
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
// The paper's searches, over values. Every operation is rounded by itself: no fused multiply-add on any backend.

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

/// Which elements a bisection selects: all that are >= `sure`, then, in index order, those that are >= `fill` until there
/// are k. If `fill_only`, there is no `sure` part.
template <class Real>
struct Selection {
  Real fill;
  Real sure;
  bool fill_only;
  std::int64_t count_sure;  ///< Elements >= `sure`, fewer than k.
  std::int32_t passes;
};

/// The paper's bisection between the least and the greatest value of a row of finite values:
///
///   Bisection<Real> search(least, greatest, k, limits);
///   while (search.next()) search.record(/* elements >= */ count(search.middle()));
///   use(search.selection());
template <class Real, class Count = std::int64_t>
class Bisection {
 public:
  /// Algorithm 2 if max_iter > 0, else Algorithm 1.
  RTOPK_HD Bisection(Real least, Real greatest, Count k, std::int32_t max_iter, double epsilon)
      : low_(least), high_(greatest), k_(k), max_iter_(max_iter) {
    const Real magnitude = greatest < 0 ? -greatest : greatest;
    width_ = static_cast<Real>(epsilon) * magnitude;  // a lone product: nothing to fuse it with
  }

  /// Whether there is another pass to make, at middle().
  [[nodiscard]] RTOPK_HD bool next() {
    if (max_iter_ > 0) {
      if (passes_ == max_iter_) return false;
      // Exactly k elements at or above low: later passes would select the same ones. (Not so if low == high, where the
      // rounded halves of a subnormal number can move the midpoint below low.)
      if (passes_ > 0 && counted_ == k_ && low_ < high_) return false;
    } else {
      if (!(high_ - low_ > width_) || (passes_ > 0 && counted_ == k_)) return false;
    }
    middle_ = midpoint(low_, high_);
    // Where nothing can change any more, stop: counting again at either end would give what it gave before.
    return !(middle_ == low_ || (middle_ == high_ && high_is_counted_));
  }

  [[nodiscard]] RTOPK_HD Real middle() const { return middle_; }

  RTOPK_HD void record(Count counted) {
    ++passes_;
    counted_ = counted;
    if (counted < k_) {
      high_ = middle_;
      high_is_counted_ = true;
    } else {
      low_ = middle_;
    }
  }

  [[nodiscard]] RTOPK_HD Selection<Real> selection() const {
    const bool fill_only = max_iter_ > 0 || passes_ == 0 || counted_ >= k_;
    return {low_, high_, fill_only, fill_only ? 0 : counted_, passes_};
  }

 private:
  Real low_;
  Real high_;
  Real middle_{};
  Real width_;
  Count k_;
  Count counted_ = 0;  ///< Of the last pass.
  std::int32_t max_iter_;
  std::int32_t passes_ = 0;
  bool high_is_counted_ = false;  ///< The first high is the maximum, which nobody has counted.
};

}  // namespace rtopk::core
