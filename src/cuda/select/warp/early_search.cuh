// The paper's bisection, stopped after few passes, with fewer counts than it has passes.
//
// All middles that its passes may come to, and the extremes, form a grid over the range of the row. The bisection ends between
// two neighbours of the grid: at least k elements reach the lower one, fewer than k the upper one. So two counts prove
// where it ends, however many passes lead there, and give the marks of what it selects. Rows before tell where to count.
//
//   least ────┬────┬────┬────┬────┬────┬────┬──── greatest      max_iter 3
//                            ▲  ▲ ▲
//                 at least k │  │ │ fewer than k: the bisection ends here
//                              expected kth value
#pragma once

#include <cstdint>
#include <limits>

#include "core/search.hpp"
#include "cuda/select/counting_search.cuh"
#include "cuda/select/warp/extent.cuh"
#include "cuda/select/warp/lane.cuh"
#include "cuda/select/warp/results.cuh"

namespace rtopk::cuda {

template <class Row>
class WarpEarlySearch {
 public:
  using T = typename Row::Type;
  using Lane = WarpLane<Row>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Arithmetic = core::ArithmeticOf<T>;
  using Group = typename Row::Group;
  using M = Marks<Row::kElements>;

  static constexpr int kMaxIter = sizeof(T) == 8 ? 11 : 9;

  /// On a finer grid the exact search is faster: where an interval of the last pass holds few ranks, counts go astray, and
  /// all rows of a warp have to end. Measured, times the exact selection, with so many ranks in the interval of a normal row,
  /// f32: 12: 1.08 to 1.12; 6: 1.14 to 1.18; 3: 1.20 to 1.30; 1.6: 1.28 to 1.39; 0.8: 1.43 to 1.86; derived: 1.37 to 1.57.
  [[nodiscard]] static __device__ bool takes(const SelectArguments& args) {
    constexpr float kRange = 6;  // of a normal row, in standard deviations
    constexpr float kLeastRanks = Group::kLanes == 32 ? 1.5f : 2;
    return args.max_iter > 0 && args.max_iter <= kMaxIter &&
           kRange >= kLeastRanks * args.expectation.step * static_cast<float>(1 << args.max_iter);
  }

  /// `learnt`: as for the search for the kth value. False, for all rows of the warp, if one has an element that is not finite, or
  /// a range with so few numbers in it that a middle may be an end of its interval.
  [[nodiscard]] static __device__ bool choose(const Row& row, Learnt<Real>& learnt, M& chosen) {
    const SelectArguments& args = row.args;
    const bool smallest = args.smallest;
    const int k = row.k();
    const Lane lane(row);
    const WarpExtent<Row, Lane> extent(row, lane);
    const Path whole{E::arithmetic(extent.least, smallest), E::arithmetic(extent.greatest, smallest), true};
    const bool works = extent.is_finite() && (whole.is_wide() || whole.high == whole.low);
    if (__any_sync(kFullWarp, !works)) return false;
    if (__any_sync(kFullWarp, !learnt.known)) {
      const Learnt<Real> own = lane.expected(row);
      if (!learnt.known) learnt = own;
    }
    // Invariant: at least k elements reach `known.low`, fewer than k reach `known.high` unless that is the greatest element. Both
    // are on the grid.
    Path known = whole;
    int off_low = row.cols() - k;
    int off_high = -k;
    M fill = lane.inside(row);
    M sure = M::none();
    auto expected = static_cast<Arithmetic>(learnt.kth);
    Path path{whole.high, whole.low, true};  // none yet
    int passes = 0;
    while (true) {
      if (!(known.low <= expected && expected < known.high)) expected = known.middle();
      const bool leaves = !(path.low <= expected && expected < path.high);
      if (__any_sync(kFullWarp, leaves)) path = whole.towards(expected, args.max_iter);
      const bool low_is_open = path.low > known.low;
      const bool high_is_open = path.high < known.high;
      const bool done = off_low == 0 || !(low_is_open || high_is_open);
      if (!__any_sync(kFullWarp, !done)) break;
      // The nearer one, because the next interval on that side may be the one.
      const bool is_low = low_is_open && (!high_is_open || expected - path.low <= path.high - expected);
      const Arithmetic at = is_low ? path.low : path.high;
      const M reached = lane.marks(Lane::reaching(at, smallest));
      const int off = Group::sum(reached.count()) - k;
      ++passes;
      const bool up = !done && off >= 0;
      const bool down = !done && off < 0;
      known.low = up ? at : known.low;
      off_low = up ? off : off_low;
      fill = M::either(up, reached, fill);
      known.high = down ? at : known.high;
      off_high = down ? off : off_high;
      sure = M::either(down, reached, sure);
      const bool both = known.low > whole.low && known.high < whole.high;
      const auto share = static_cast<Arithmetic>(reciprocal(static_cast<float>(off_low - off_high)));
      const Arithmetic step = both ? (known.high - known.low) * share : static_cast<Arithmetic>(learnt.step);
      const Arithmetic kth = at + (static_cast<Arithmetic>(off) + Arithmetic{0.5}) * step;
      // If interpolation takes long, every other time what is outside of the interval: then its middle is tried.
      const bool halves = passes >= kInterpolated && passes % 2 == 0;
      expected = done ? expected : halves ? known.high : kth;
    }
    learn<T>(learnt, Lane::reaching(expected, smallest), 0, passes, false);
    learnt.known = learnt.known && passes <= kInterpolated;  // else the next row is estimated by itself
    if (args.passes != nullptr && Group::lane() == 0) args.passes[row.row] = row.passes_of(passes);
    const bool fill_only = path.up || args.rule != Rule::threshold_first;
    sure = M::either(fill_only, M::none(), sure);
    chosen = sure | first_in_index_order<Group::kLanes, true>(fill.without(sure), k - Group::sum(sure.count()));
    return true;
  }

 private:
  static constexpr int kInterpolated = 6;

  /// An interval of the bisection.
  struct Path {
    Arithmetic low;
    Arithmetic high;
    bool up;  ///< The last pass raised `low`.

    /// True if every middle lies inside of its interval: the intervals of the last pass are a few numbers wide.
    [[nodiscard]] __device__ bool is_wide() const {
      constexpr auto kLeast = static_cast<Arithmetic>(sizeof(Arithmetic) == 8 ? 1e-290 : 1e-30);
      constexpr int kBits = std::numeric_limits<Arithmetic>::digits - 3 - kMaxIter;
      constexpr auto kShare = Arithmetic{1} / static_cast<Arithmetic>(std::int64_t{1} << kBits);
      const Arithmetic range = high - low;
      return range >= kLeast && range >= kShare * max(-low, high);
    }
    /// Where all passes lead if the kth value is `kth`.
    [[nodiscard]] __device__ Path towards(Arithmetic kth, int passes) const {
      Path path = *this;
#pragma unroll 4
      for (int i = 0; i < passes; ++i) {
        const Arithmetic middle = core::midpoint(path.low, path.high);
        path.up = kth >= middle;
        path.low = path.up ? middle : path.low;
        path.high = path.up ? path.high : middle;
      }
      return path;
    }
    /// At least `low`, below `high`.
    [[nodiscard]] __device__ Arithmetic middle() const {
      const Arithmetic middle = core::midpoint(low, high);
      return low <= middle && middle < high ? middle : low;
    }
  };
};

}  // namespace rtopk::cuda
