// The keys by which cuda_filter compares candidates.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/select/element.cuh"

namespace rtopk::cuda {

/// Directed keys as in core/keys.hpp, but faster to make for f32. Not every integer is the key of a value.
template <class T>
struct FilterKey {
  using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static constexpr Key kGreatest = core::max_key<T>;

  static __device__ Key of(T raw, bool smallest) { return directed_key(raw, smallest); }
  static __device__ T value(Key key, bool smallest) {
    const auto narrow = static_cast<core::KeyOf<T>>(key);
    return core::value_of<T>(smallest ? static_cast<core::KeyOf<T>>(core::max_key<T> - narrow) : narrow);
  }
};

template <>
struct FilterKey<float> {
  using Key = std::uint32_t;
  static constexpr Key kGreatest = 0xffffffff;

  static __device__ Key of(float raw, bool smallest) {
    const Key key = Element<float>::sort_key(raw);
    return smallest ? ~key : key;
  }
  static __device__ float value(Key key, bool smallest) {
    // Here -0 has a key of its own, just below the key that both zeros get. Every element with a key at or below it is
    // below zero. As a threshold, -0 would let +0 pass; the next smaller value does not.
    constexpr Key kNegativeZero = 0x7fffffff;
    const Key undirected = smallest ? ~key : key;
    return Element<float>::from_sort_key(smallest && undirected == kNegativeZero ? kNegativeZero - 1 : undirected);
  }
};

}  // namespace rtopk::cuda
