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

template <class T, Direction direction>
__device__ KeyRange<WideKey<T>> early_ties_of(const SelectArguments& args, const RowExtent<WideKey<T>>& extent,
                                              WideKey<T> kth) {
  using Key = core::KeyOf<T>;
  const auto value_of = [](WideKey<T> key) {
    return core::directed_arithmetic<T, direction>(
        core::value_of<T>(core::directed<T, direction>(static_cast<Key>(key))));
  };
  const core::Selection<core::ArithmeticOf<T>> selection =
      core::selection_of_kth(args, value_of(extent.least), value_of(extent.greatest), value_of(kth));
  const WideKey<T> low = core::directed_threshold_key<T, direction>(selection.fill);
  const WideKey<T> above = core::directed_threshold_key<T, direction>(selection.sure);
  return {low, selection.fill_only ? WideKey<T>{core::max_key<T>} : static_cast<WideKey<T>>(above - 1)};
}

/// Of a row of finite values, all elements above this range are selected, and then elements in it in index order.
template <class T>
__device__ KeyRange<WideKey<T>> early_ties(const SelectArguments& args, RowExtent<WideKey<T>> extent, WideKey<T> kth) {
  return args.smallest ? early_ties_of<T, Direction::smallest>(args, extent, kth)
                       : early_ties_of<T, Direction::largest>(args, extent, kth);
}

}  // namespace rtopk::cuda
