// Rows that the fast way of warp_select.cuh does not suit, and the paper's searches. Correct for every row; the fast way
// calls it for few.
#pragma once

#include "border_search.cuh"
#include "core/search.hpp"
#include "row_marks.cuh"
#include "warp_row.cuh"

namespace rtopk::cuda {

template <class T, int G, int R>
struct WarpSearch {
  using Row = WarpRow<T, G, R>;
  using Shape = typename Row::Shape;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Key = core::KeyOf<T>;
  using Arithmetic = core::ArithmeticOf<T>;
  using Group = LaneGroup<G>;

  /// A row as directed keys; 0, which no probe reaches, behind its end.
  struct Keys {
    Key key[R];
  };

  struct Border {
    Key key;
    int count;        ///< Elements at or above `key`.
    int count_above;  ///< If count > k.
    bool ties;
  };

  static __device__ Keys keys_of(const Row& row) {
    Keys keys;
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      const typename Row::Vector loaded = row.vector_at(i);
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        const int r = i * Shape::kVector + j;
        keys.key[r] = Row::col_of(r) < row.cols() ? directed_key(loaded.raw[j], row.call.smallest) : Key{0};
      }
    }
    return keys;
  }

  static __device__ int count(const Keys& keys, Key threshold) {
    int counted = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) counted += keys.key[r] >= threshold ? 1 : 0;
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

  /// The border of `rank`. `from` and `to` are where it is expected: anything will do.
  static __device__ Border search(const Row& row, const Keys& keys, int rank, Key from, Key to, int& passes) {
    const bool smallest = row.call.smallest;
    core::ThresholdSearch<Key> search({0, core::max_key<T>, row.cols(), 0}, rank);
    for (int pass = 0; __any_sync(kWholeWarp, !search.done()); ++pass) {
      const bool active = !search.done();
      const core::Bracket<Key> bracket = search.bracket();
      const bool stuck = active && (search.is_stuck() || pass % 4 == 2);
      if (__any_sync(kWholeWarp, stuck)) {
        Key least = bracket.high;
        Key greatest = bracket.low;
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const Key key = keys.key[r];
          if (key >= bracket.low && key <= bracket.high && Row::col_of(r) < row.cols()) {
            least = key < least ? key : least;
            greatest = key > greatest ? key : greatest;
          }
        }
        least = Group::least(least);
        greatest = Group::greatest(greatest);
        if (stuck) search.narrow(least, greatest);
      }
      const core::Bracket<Key> now = search.bracket();
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
      const int counted = count(keys, probe);
      if (active && !search.done()) search.record(probe, counted);
    }
    const core::Threshold<Key> result = search.result();
    passes += result.passes;
    return {result.key, static_cast<int>(result.count), static_cast<int>(result.count_above), result.count > rank};
  }

  static __device__ unsigned choose(const Row& row, const Keys& keys, const Border& border) {
    unsigned chosen = 0;
    unsigned tied = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (Row::col_of(r) < row.cols()) {
        chosen |= keys.key[r] > border.key ? 0x80000000u >> r : 0u;
        tied |= keys.key[r] == border.key ? 0x80000000u >> r : 0u;
      }
    }
    if (!__any_sync(kWholeWarp, border.ties)) return chosen | tied;
    return chosen | Row::first_in_index_order(tied, border.ties ? row.k() - border.count_above : Shape::kCols);
  }

  /// Selects and writes the rows of the warp. `hint` is the border of the rows before: rows with many equal values there
  /// often share it.
  template <bool kOrders>
  static __device__ void select(const Row& row, Key& hint) {
    const Keys keys = keys_of(row);
    int passes = 0;
    const Key above_hint = hint < core::max_key<T> ? static_cast<Key>(hint + 1) : hint;
    const Border border = search(row, keys, row.k(), hint, above_hint, passes);
    hint = border.key;
    row.template write<kOrders>(choose(row, keys, border));
    if (row.call.passes != nullptr && Group::lane() == 0) row.call.passes[row.row] = passes;
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
  /// The least element whose arithmetic value is at or above `threshold`.
  static __device__ Value least_at(Arithmetic threshold, bool smallest) {
    if constexpr (core::is_floating<T>) {
      return threshold;
    } else {
      return static_cast<std::int32_t>(__double2ll_ru(threshold) - (smallest ? 1 : 0));
    }
  }

  /// The least and the greatest element of a row, and whether all are finite.
  struct Range {
    Value least;
    Value greatest;
    bool finite;
  };

  static __device__ void extend(Range& range, Value x) {
    if constexpr (core::is_floating<T>) {
      range.least = fmin(range.least, x);
      range.greatest = fmax(range.greatest, x);
      range.finite = range.finite && E::is_finite(x);
    } else {
      range.least = min(range.least, x);
      range.greatest = max(range.greatest, x);
    }
  }

  static __device__ Range range_of(const Row& row, const Value (&x)[R]) {
    Range range{E::greatest(), E::least(), true};
    if (row.cols() == Shape::kCols) {
#pragma unroll
      for (int r = 0; r < R; ++r) extend(range, x[r]);
    } else {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if (Row::col_of(r) < row.cols()) extend(range, x[r]);
      }
    }
    return {Group::least(range.least), Group::greatest(range.greatest), !Group::any(!range.finite)};
  }

  /// `hint` is where the search of the row before ended; NaN: not known.
  static __device__ void bisect(const Row& row, Arithmetic& hint) {
    const Call& call = row.call;
    Value x[R];
    row.load(x);
    const Range range = range_of(row, x);
    const bool finite = range.finite;
    const Arithmetic least = arithmetic(range.least, call.smallest);
    const Arithmetic greatest = arithmetic(range.greatest, call.smallest);
    // More than k elements are known to reach one of these, fewer than k the other. The first middles of a long search lie so
    // far from where the row before had its border that two counts around that spare theirs.
    Arithmetic reached = -static_cast<Arithmetic>(INFINITY);
    Arithmetic missed = static_cast<Arithmetic>(INFINITY);
    const auto learn = [&](Arithmetic threshold, bool counts) {
      const int counted = Group::sum(__popc(marks_of<T>(x, least_at(threshold, call.smallest))));
      if (counts && counted > row.k()) reached = max(reached, threshold);
      if (counts && counted < row.k()) missed = min(missed, threshold);
      return counted;
    };
    constexpr int kLongSearch = 6;
    if (call.max_iter >= kLongSearch && __any_sync(kWholeWarp, hint == hint)) {
      const Arithmetic distance = (greatest - least) / 32;
      learn(max(hint - distance, least), hint == hint);
      learn(min(hint + distance, greatest), hint == hint);
    }
    core::Bisection<Arithmetic> search(least, greatest, row.k(), call.max_iter, call.epsilon);
    bool goes_on = finite && search.next();
    while (__any_sync(kWholeWarp, goes_on)) {
      const Arithmetic middle = search.middle();
      const bool decided = call.max_iter > 0 && (middle <= reached || middle >= missed);
      int counted = middle <= reached ? row.k() + 1 : 0;
      if (__any_sync(kWholeWarp, goes_on && !decided)) {
        const int now = learn(middle, goes_on && !decided);
        counted = decided ? counted : now;
      }
      if (goes_on) {
        search.record(counted);
        goes_on = search.next();
      }
    }
    const core::Selection<Arithmetic> selection = search.selection();
    const bool stops_early = call.max_iter > 0 || call.epsilon > 0;
    if (finite) hint = Arithmetic{0.5} * (selection.fill + selection.sure);
    if (call.passes != nullptr && Group::lane() == 0) call.passes[row.row] = finite ? selection.passes : 0;
    unsigned chosen = 0;
    if (stops_early && !__any_sync(kWholeWarp, !finite || !selection.fill_only)) {
      const unsigned fill = marks_of<T>(x, least_at(selection.fill, call.smallest));
      row.template write<false>(Row::first_in_index_order(fill, row.k()));
      return;
    }
    if (stops_early) {
      const unsigned fill = marks_of<T>(x, least_at(selection.fill, call.smallest));
      const unsigned sure = selection.fill_only ? 0u : marks_of<T>(x, least_at(selection.sure, call.smallest));
      const int places = row.k() - (selection.fill_only ? 0 : static_cast<int>(selection.count_sure));
      chosen = sure | Row::first_in_index_order(fill & ~sure, places);
    }
    if (__any_sync(kWholeWarp, !stops_early || !finite)) {
      int ignored = 0;
      const Keys keys = keys_of(row);
      const Border border = WarpSearch::search(row, keys, row.k(), 0, 0, ignored);
      const unsigned exact = choose(row, keys, border);
      if (!stops_early || !finite) chosen = exact;
    }
    row.template write<false>(chosen);
  }
};

}  // namespace rtopk::cuda
