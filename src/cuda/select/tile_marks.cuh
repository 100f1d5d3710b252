// Marks of a thread's elements of a tile, one bit each.
#pragma once

#include <cstdint>

#include "cuda/select/at_most.cuh"
#include "cuda/select/row_vectors.cuh"

namespace rtopk::cuda {

/// One bit after the other, the first element's first.
template <class T, int kLoads, bool kMagnitude>
struct TileMarks {
  using Bound = typename AtMost<T>::Bound;
  static constexpr int kVector = Vector<T>::kSize;
  static constexpr int kElements = kLoads * kVector;
  static_assert(kElements <= 23);
  static constexpr unsigned kAll = (1u << kElements) - 1u;

  /// Marks of the elements that are at most the bound. `vector(line)` has the thread's vectors.
  template <class V>
  static __device__ unsigned at_most(V&& vector, Bound bound) {
    float sums[2] = {AtMost<T>::kNoMarks, 0.0f};  // two, which do not wait for each other
#pragma unroll
    for (int line = 0; line < kLoads; ++line) {
      Vector<T> loaded;
      loaded.bits = vector(line);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const T x = kMagnitude ? AtMost<T>::magnitude(loaded.raw[j]) : loaded.raw[j];
        sums[j % 2] = fmaf(AtMost<T>::one(x, bound), static_cast<float>(1 << (line * kVector + j)), sums[j % 2]);
      }
    }
    return __float_as_uint(sums[0] + sums[1]);
  }
  static __device__ unsigned of_line(int line) { return ((1u << kVector) - 1u) << (line * kVector); }
  static __device__ unsigned of_element(int line, int place) { return 1u << (line * kVector + place); }
  /// The element that a bit stands for: its vector and its place in that.
  static __device__ unsigned line(unsigned bit) { return bit / kVector; }
  static __device__ unsigned place(unsigned bit) { return bit % kVector; }
};

/// The marks of even elements in the lower half, those of odd ones in the upper half.
template <class T, int kLoads, bool kMagnitude>
struct PairMarks {
  using Bound = typename AtMost<T>::Bound;
  static_assert(kLoads <= 4);
  static constexpr unsigned kAll = 0x00010001u * ((1u << 4 * kLoads) - 1u);

  template <class V>
  static __device__ unsigned at_most(V&& vector, Bound bound) {
    unsigned marks = 0;
#pragma unroll
    for (int line = 0; line < kLoads; ++line) {
      const uint4 loaded = vector(line);
      const unsigned words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const unsigned two = kMagnitude ? AtMost<T>::magnitude(words[j]) : words[j];
        marks |= AtMost<T>::halves(two, bound) & (0x00010001u << (line * 4 + j));
      }
    }
    return marks;
  }
  static __device__ unsigned of_line(int line) { return 0x000f000fu << (line * 4); }
  static __device__ unsigned of_element(int line, int place) { return 1u << (line * 4 + place / 2 + 16 * (place % 2)); }
  static __device__ unsigned line(unsigned bit) { return bit % 16 / 4; }
  static __device__ unsigned place(unsigned bit) { return 2 * (bit % 4) + bit / 16; }
};

template <int kLoads, bool kMagnitude>
struct TileMarks<core::F16, kLoads, kMagnitude> : PairMarks<core::F16, kLoads, kMagnitude> {};
template <int kLoads, bool kMagnitude>
struct TileMarks<core::BF16, kLoads, kMagnitude> : PairMarks<core::BF16, kLoads, kMagnitude> {};

}  // namespace rtopk::cuda
