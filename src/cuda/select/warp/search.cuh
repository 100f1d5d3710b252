// The paper's searches, and the exact one by keys for rows that they do not decide.
#pragma once

#include "core/search.hpp"
#include "cuda/select/counting_search.cuh"
#include "cuda/select/early_stop.cuh"
#include "cuda/select/marks.cuh"
#include "cuda/select/warp/order.cuh"

namespace rtopk::cuda {

template <class Row>
struct WarpSearch {
  using T = typename Row::Type;
  using Config = typename Row::Config;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Key = core::KeyOf<T>;
  using Arithmetic = core::ArithmeticOf<T>;
  using Group = typename Row::Group;
  static constexpr int G = Group::kLanes;
  static constexpr int R = Row::kElements;

  struct Threshold {
    Key key;
    int count;        ///< Elements at or above `key`.
    int count_above;  ///< Valid if count > k.
    bool ties;
  };

  /// Calls `f` with the number and the directed key of each of the lane's elements. Reads them from the tile every
  /// time: the bisection needs the registers.
  template <class F>
  static __device__ void for_each_key(const Row& row, F&& f) {
#pragma unroll 1
    for (int i = 0; i < Config::kVectors; ++i) {
      const typename Row::Vector loaded = row.vector_at(i);
#pragma unroll
      for (int j = 0; j < Config::kVector; ++j) {
        const int r = i * Config::kVector + j;
        if (Row::col_of(r) < row.cols()) f(r, directed_key(loaded.raw[j], row.args.smallest));
      }
    }
  }

  static __device__ int count(const Row& row, Key threshold) {
    int counted = 0;
    for_each_key(row, [&](int, Key key) { counted += key >= threshold ? 1 : 0; });
    return Group::sum(counted);
  }

  static __device__ Value value_of_key(Key directed, bool smallest) {
    const Key key = smallest ? static_cast<Key>(core::max_key<T> - directed) : directed;
    const Value value = E::value(core::value_of<T>(key));
    return smallest ? E::reversed(value) : value;
  }
  static __device__ Real real_of_key(Key directed, bool smallest) { return E::real(value_of_key(directed, smallest)); }

  /// The key of a value close to `value`, for a proposal.
  static __device__ Key key_near(Real value, bool smallest) {
    if (!(value == value)) return 0;
    const Real raw = smallest ? -value : value;
    T element;
    if constexpr (sizeof(T) == 2) {
      if constexpr (std::is_same_v<T, core::F16>) {
        element.bits = __half_as_ushort(__float2half_rn(raw));
      } else {
        element.bits = __bfloat16_as_ushort(__float2bfloat16_rn(raw));
      }
    } else if constexpr (std::is_same_v<T, std::int32_t>) {
      element = __float2int_rn(raw);
    } else {
      element = raw;
    }
    return directed_key(element, smallest);
  }

  /// Finds the value of rank `rank`. `from` and `to`: where it is expected; any keys are correct.
  static __device__ Threshold search(const Row& row, int rank, Key from, Key to, int& passes) {
    const bool smallest = row.args.smallest;
    core::ThresholdSearch<Key, int> search({0, core::max_key<T>, row.cols(), 0}, rank);
    // ThresholdSearch keeps the value of rank `rank` in its bracket. Proposals affect only how fast that shrinks.
    for (int pass = 0; __any_sync(kFullWarp, !search.done()); ++pass) {
      const bool active = !search.done();
      const core::Bracket<Key, int> bracket = search.bracket();
      const bool stuck = active && (search.is_stuck() || pass % 4 == 2);
      if (__any_sync(kFullWarp, stuck)) {
        Key least = bracket.high;
        Key greatest = bracket.low;
        for_each_key(row, [&](int, Key key) {
          if (key >= bracket.low && key <= bracket.high) {
            least = key < least ? key : least;
            greatest = key > greatest ? key : greatest;
          }
        });
        least = Group::least(least);
        greatest = Group::greatest(greatest);
        if (stuck) search.narrow(least, greatest);
      }
      const core::Bracket<Key, int> now = search.bracket();
      Key proposal = static_cast<Key>(now.low + (now.high - now.low) / 2 + 1);
      if (pass == 0) {
        proposal = from;
      } else if (pass == 1) {
        proposal = to;
      } else if (pass % 4 != 1) {
        const Real low = real_of_key(now.low, smallest);
        const Real high = real_of_key(now.high, smallest);
        const Real share =
            (static_cast<Real>(now.count_low - rank) + Real{0.5}) / static_cast<Real>(now.count_low - now.count_above);
        const Real between = low + (high - low) * share;
        if (E::is_finite(E::from_real(low)) && E::is_finite(E::from_real(high))) proposal = key_near(between, smallest);
      }
      const Key probe = search.probe(proposal);
      const int counted = count(row, probe);
      if (active && !search.done()) search.record(probe, counted);
    }
    const core::Threshold<Key, int> result = search.result();
    passes += result.passes;
    return {result.key, result.count, result.count_above, result.count > rank};
  }

  static __device__ Marks<R> choose(const Row& row, const Threshold& kth) {
    Marks<R> chosen = Marks<R>::none();
    Marks<R> tied = Marks<R>::none();
    for_each_key(row, [&](int r, Key key) {
      if (key > kth.key) chosen.add(r);
      if (key == kth.key) tied.add(r);
    });
    if (!__any_sync(kFullWarp, kth.ties)) return chosen | tied;
    return chosen | first_in_index_order<G>(tied, kth.ties ? row.k() - kth.count_above : Config::kCols);
  }

  // ------------------------------------------------------------------------------------------------------------------
  // The paper's searches.

  /// The element as the paper's algorithms see it.
  static __device__ Arithmetic arithmetic(Value x, bool smallest) {
    if constexpr (core::is_floating<T>) {
      return x;
    } else {
      return static_cast<double>(x) + (smallest ? 1.0 : 0.0);  // -raw, and x is ~raw
    }
  }
  /// The smallest element whose arithmetic value is at or above `threshold`.
  static __device__ Value least_at(Arithmetic threshold, bool smallest) {
    if constexpr (core::is_floating<T>) {
      return threshold;
    } else {
      return static_cast<std::int32_t>(__double2ll_ru(threshold) - (smallest ? 1 : 0));
    }
  }

  /// The smallest and the largest element of a row. One of them is not finite if any element is not.
  struct Range {
    Value least;
    Value greatest;
  };

  static __device__ void extend(Range& range, Value x) {
    range.least = E::lesser_or_nan(range.least, x);
    range.greatest = E::greater_or_nan(range.greatest, x);
  }

  static __device__ Range range_of(const Row& row, const Value (&x)[R]) {
    Range range{E::greatest(), E::least()};
    if (row.cols() == Config::kCols) {
#pragma unroll
      for (int r = 0; r < R; ++r) extend(range, x[r]);
    } else {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if (Row::col_of(r) < row.cols()) extend(range, x[r]);
      }
    }
#pragma unroll
    for (int distance = G / 2; distance > 0; distance /= 2) {
      const Range other{__shfl_xor_sync(kFullWarp, range.least, distance),
                        __shfl_xor_sync(kFullWarp, range.greatest, distance)};
      range.least = E::lesser_or_nan(range.least, other.least);
      range.greatest = E::greater_or_nan(range.greatest, other.greatest);
    }
    return range;
  }

  static __device__ void bisect(const Row& row) {
    const SelectArguments& args = row.args;
    const int k = row.k();
    Value x[R];
    row.load(x);
    const Range range = range_of(row, x);
    const bool finite = E::is_finite(range.least) && E::is_finite(range.greatest);
    core::Bisection<Arithmetic, int> search(arithmetic(range.least, args.smallest),
                                            arithmetic(range.greatest, args.smallest), k, args.max_iter, args.rule,
                                            args.epsilon);
    bool goes_on = finite && search.next();
    Marks<R> fewer = Marks<R>::none();  // the elements of the last pass with fewer than k,
    Marks<R> fill = row.inside();       // and those of the last pass with at least k
    while (__any_sync(kFullWarp, goes_on)) {
      const Marks<R> marks = marks_of<T>(x, least_at(search.middle(), args.smallest));
      const int number = Group::sum(marks.count());
      if (goes_on) {
        fewer = Marks<R>::either(number >= k, fewer, marks);
        fill = Marks<R>::either(number >= k, marks, fill);
        search.record(number);
        goes_on = search.next();
      }
    }
    const core::Selection<Arithmetic> selection = search.selection();
    if (args.passes != nullptr && Group::lane() == 0) args.passes[row.row] = finite ? selection.passes : 0;
    const Marks<R> sure = Marks<R>::either(selection.fill_only, Marks<R>::none(), fewer);
    Marks<R> chosen = sure | first_in_index_order<G>(fill.without(sure), k - static_cast<int>(selection.count_sure));
    const bool suffices = stops_early(args) || Group::sum(fill.count()) == k;  // if not, there are ties
    if (__any_sync(kFullWarp, !suffices || !finite)) {
      int ignored = 0;
      const Threshold kth = WarpSearch::search(row, k, 0, 0, ignored);
      const Marks<R> exact = choose(row, kth);
      chosen = Marks<R>::either(suffices && finite, chosen, exact);
    }
    write_chosen<false>(row, chosen);
  }
};

}  // namespace rtopk::cuda
