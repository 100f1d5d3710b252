// What an early-stopped bisection selects, without its passes. At least k elements are at or above a threshold exactly
// where that is at most the kth value. So the thresholds of all passes follow from the kth value and the extremes of the
// row.
#pragma once

#include "core/keys.hpp"
#include "core/search.hpp"
#include "cuda/select/arguments.hpp"
#include "cuda/select/key_range.cuh"

namespace rtopk::cuda {

[[nodiscard]] inline __device__ bool stops_early(const SelectArguments& args) {
  return args.max_iter > 0 || args.epsilon > 0;
}

/// The least and the greatest element of a row, as directed keys.
template <class Key>
struct RowExtent {
  Key least;
  Key greatest;

  template <class T>
  [[nodiscard]] __device__ bool is_finite(bool smallest) const {
    const Key flip = smallest ? Key{core::max_key<T>} : Key{0};
    const Key a = smallest ? flip - least : least;
    const Key b = smallest ? flip - greatest : greatest;
    return min(a, b) >= Key{core::lower_finite_key<T>} && max(a, b) <= Key{core::upper_finite_key<T>};
  }
};

/// Directed keys: selected are all elements at or above `sure`, then elements at or above `fill` in index order.
template <class Key>
struct EarlySelection {
  Key fill;
  Key sure;
  bool fill_only;  ///< There is no `sure`.
};

template <class T, Direction direction>
__device__ EarlySelection<WideKey<T>> early_selection_of(const SelectArguments& args,
                                                         const RowExtent<WideKey<T>>& extent, WideKey<T> kth) {
  using Key = core::KeyOf<T>;
  const auto value_of = [](WideKey<T> key) {
    return core::directed_arithmetic<T, direction>(
        core::value_of<T>(core::directed<T, direction>(static_cast<Key>(key))));
  };
  // With a k of 1, two elements are "more" and none is "fewer".
  core::Bisection<core::ArithmeticOf<T>, int> search(value_of(extent.least), value_of(extent.greatest), 1,
                                                     args.max_iter, args.rule, args.epsilon);
#pragma unroll 1
  while (search.next()) {
    search.record(kth >= core::directed_threshold_key<T, direction>(search.middle()) ? 2 : 0);
  }
  const auto selection = search.selection();
  return {core::directed_threshold_key<T, direction>(selection.fill),
          core::directed_threshold_key<T, direction>(selection.sure), selection.fill_only};
}

/// For a row of finite values. Not inlined, so that it costs exact selections no registers.
template <class T>
__device__ __noinline__ EarlySelection<WideKey<T>> early_selection(const SelectArguments& args,
                                                                   RowExtent<WideKey<T>> extent, WideKey<T> kth) {
  return args.smallest ? early_selection_of<T, Direction::smallest>(args, extent, kth)
                       : early_selection_of<T, Direction::largest>(args, extent, kth);
}

}  // namespace rtopk::cuda
