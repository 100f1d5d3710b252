// Comparisons of elements with a threshold that give marks, one bit for each element.
//
// A comparison is "at most a bound", which is false for NaN. For the largest elements, "at or above a threshold" is
// "not at most the next lower value", which is true for NaN: so the marks are exact for every element.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "core/keys.hpp"
#include "cuda/select/element.cuh"

namespace rtopk::cuda {

/// Compares one element: gives 1 or 0 as a float. A multiplication by a power of two moves it to its bit in the
/// mantissa of a sum: comparison and multiplication run on different pipes on sm_90.
template <class T>
struct AtMost {
  using Bound = typename Element<T>::Value;

  static __device__ Bound bound(core::KeyOf<T> key) { return core::value_of<T>(key); }

  static __device__ float one(float x, float bound) {
    float one;
    asm("set.le.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(x), "f"(bound));
    return one;
  }
  static __device__ float one(double x, double bound) {
    float one;
    asm("set.le.f32.f64 %0, %1, %2;" : "=f"(one) : "d"(x), "d"(bound));
    return one;
  }
  static __device__ float one(std::int32_t x, std::int32_t bound) {
    float one;
    asm("set.le.f32.s32 %0, %1, %2;" : "=f"(one) : "r"(x), "r"(bound));
    return one;
  }

  /// What stands for an element in comparisons by magnitude. Of floats it is a modifier of the comparison.
  static __device__ float magnitude(float x) { return fabsf(x); }
  static __device__ double magnitude(double x) { return fabs(x); }
  static __device__ std::int32_t magnitude(std::int32_t x) { return compared(x, true); }

  /// Bits of the mantissa of sums that start here are set one by one.
  static constexpr float kNoMarks = 8388608.0f;
};

/// Compares two elements of 16 bits, in the halves of a word: all bits of a half are set or none.
template <class T>
struct PairAtMost {
  using Bound = unsigned;  ///< Twice the same.

  static __device__ Bound bound(core::KeyOf<T> key) { return core::value_of<T>(key).bits * 0x00010001u; }

  static __device__ unsigned magnitude(unsigned x) { return x & 0x7fff7fffu; }

  static __device__ unsigned halves(unsigned x, unsigned bound) {
    if constexpr (std::is_same_v<T, core::F16>) {
      return __hle2_mask(*reinterpret_cast<const half2*>(&x), *reinterpret_cast<const half2*>(&bound));
    } else {
      return __hle2_mask(*reinterpret_cast<const __nv_bfloat162*>(&x),
                         *reinterpret_cast<const __nv_bfloat162*>(&bound));
    }
  }
};

template <>
struct AtMost<core::F16> : PairAtMost<core::F16> {};
template <>
struct AtMost<core::BF16> : PairAtMost<core::BF16> {};

/// Marks the elements at or above a threshold, which is a directed key.
template <class T>
class MarkingThreshold {
 public:
  using Bound = typename AtMost<T>::Bound;
  using Key = core::KeyOf<T>;

  /// `next`: of the key after this one; there is none after the greatest, which no element reaches.
  __device__ MarkingThreshold(Key key, bool next, bool smallest)
      : flip_(smallest ? 0u : ~0u), all_(key == 0 && !next), none_(key == core::max_key<T> && next) {
    // For the largest, "at or above" is "not at most the next lower value", which is true for NaN too.
    constexpr Key top = core::max_key<T>;
    const int step = next ? 1 : 0;
    const auto below = static_cast<Key>(all_ ? 0 : key - 1 + step);
    const auto above = static_cast<Key>(none_ ? 0 : top - key - step);
    bound_ = AtMost<T>::bound(smallest ? above : below);
  }

  [[nodiscard]] __device__ Bound bound() const { return bound_; }
  /// From marks of the elements at most the bound.
  [[nodiscard]] __device__ unsigned marks(unsigned at_most) const { return all_ ? ~0u : none_ ? 0u : at_most ^ flip_; }

 private:
  Bound bound_;
  unsigned flip_;
  bool all_;
  bool none_;
};

}  // namespace rtopk::cuda
