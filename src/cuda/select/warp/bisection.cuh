// The paper's searches. Rows that they do not decide are selected exactly.
#pragma once

#include "core/search.hpp"
#include "cuda/select/early_stop.cuh"
#include "cuda/select/marks.cuh"
#include "cuda/select/warp/order.cuh"
#include "cuda/select/warp/select.cuh"

namespace rtopk::cuda {

template <class Row>
struct WarpBisection {
  using T = typename Row::Type;
  using Config = typename Row::Config;
  using E = Element<T>;
  using Value = typename E::Value;
  using Arithmetic = core::ArithmeticOf<T>;
  using Group = typename Row::Group;
  static constexpr int G = Group::kLanes;
  static constexpr int R = Row::kElements;

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

  /// Not inlined: the passes need the registers.
  static __device__ __noinline__ Marks<R> exact_selection(const Row& row) {
    WarpSelect<Row> alone;
    return alone.choose(row);
  }

  static __device__ void bisect(const Row& row) {
    const SelectArguments& args = row.args;
    const int k = row.k();
    Value x[R];
    row.load(x);
    const Range range = range_of(row, x);
    const bool finite = E::is_finite(range.least) && E::is_finite(range.greatest);
    core::Bisection<Arithmetic, int> search(E::arithmetic(range.least, args.smallest),
                                            E::arithmetic(range.greatest, args.smallest), k, args.max_iter, args.rule,
                                            args.epsilon);
    bool goes_on = finite && search.next();
    Marks<R> fewer = Marks<R>::none();  // the elements of the last pass with fewer than k,
    Marks<R> fill = row.inside();       // and those of the last pass with at least k
    while (__any_sync(kFullWarp, goes_on)) {
      const Marks<R> marks = marks_of<T>(x, E::reaching(search.middle(), args.smallest));
      const int number = Group::sum(marks.count());
      if (goes_on) {
        fewer = Marks<R>::either(number >= k, fewer, marks);
        fill = Marks<R>::either(number >= k, marks, fill);
        search.record(number);
        goes_on = search.next();
      }
    }
    const core::Selection<Arithmetic> selection = search.selection();
    const Marks<R> sure = Marks<R>::either(selection.fill_only, Marks<R>::none(), fewer);
    Marks<R> chosen = sure | first_in_index_order<G>(fill.without(sure), k - static_cast<int>(selection.count_sure));
    const bool suffices = stops_early(args) || Group::sum(fill.count()) == k;  // if not, there are ties
    if (__any_sync(kFullWarp, !suffices || !finite)) {
      chosen = Marks<R>::either(suffices && finite, chosen, exact_selection(row));
    }
    // After those of the exact selection, which do not count.
    if (args.passes != nullptr && Group::lane() == 0) args.passes[row.row] = finite ? selection.passes : 0;
    write_chosen<false>(row, chosen);
  }
};

}  // namespace rtopk::cuda
