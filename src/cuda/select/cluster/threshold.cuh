// The order of elements in cuda_cluster, and a filter threshold that is fast to compare with.
#pragma once

#include <type_traits>

#include "cuda/select/element.cuh"
#include "cuda/select/filter_key.cuh"

namespace rtopk::cuda {

/// Directed keys. Those of 16-bit elements are made from floats, which is faster.
template <class T>
struct ClusterKey {
  using Wide = std::conditional_t<sizeof(T) == 2, float, T>;
  using Key = typename FilterKey<Wide>::Key;
  static constexpr Key kGreatest = FilterKey<Wide>::kGreatest;
  static __device__ Key of(T raw, bool smallest) { return FilterKey<Wide>::of(Element<T>::value(raw), smallest); }
};

/// A filter threshold that is fast to compare with. Every element whose key reaches it passes, and possibly a few more.
template <class T>
class QuickThreshold {
 public:
  using Wide = typename ClusterKey<T>::Wide;
  using Key = typename ClusterKey<T>::Key;

  __device__ QuickThreshold(Key filter_threshold, bool smallest) : sign_(smallest ? kSmallest : kGreatest) {
    threshold_ = directed(FilterKey<Wide>::value(filter_threshold, smallest));
  }
  /// True if either is NaN: if the filter threshold is the key of a NaN, everything passes.
  __device__ bool passes(T raw) const { return !(directed(Element<T>::value(raw)) < threshold_); }

 private:
  static constexpr bool kIsReal = std::is_floating_point_v<Wide>;
  static constexpr Wide kGreatest = kIsReal ? Wide{1} : Wide{0};
  static constexpr Wide kSmallest = Wide{-1};

  __device__ Wide directed(Wide x) const {
    if constexpr (kIsReal) {
      return x * sign_;
    } else {
      return x ^ sign_;
    }
  }

  Wide sign_;
  Wide threshold_;
};

}  // namespace rtopk::cuda
