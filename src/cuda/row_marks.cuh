// Which of a lane's elements reach a threshold: a mark for each, the first one's in the highest bit of a word.
//
// A comparison gives 1 or 0 as a floating-point number, and a multiplication by a power of two puts it in its place in the
// mantissa of a sum. That is as fast as counting alone, on sm_90 the two run on different pipes, and the marks say all there is
// to know: how many, which, and in which order.
#pragma once

#include "element.cuh"

namespace rtopk::cuda {

template <class T, int R>
__device__ unsigned marks_of(const typename Element<T>::Value (&x)[R], typename Element<T>::Value threshold) {
  constexpr int kBits = 16;  // of a sum that starts at 2^23, whose mantissa is an integer
  constexpr int kSums = 32 / kBits;
  float sums[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = 8388608.0f;
#pragma unroll
  for (int j = 0; j < kBits; ++j) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      if (i * kBits + j < R) {
        const float one = Element<T>::one_if_at_least(x[i * kBits + j], threshold);
        sums[i] = fmaf(one, static_cast<float>(1 << (kBits - 1 - j)), sums[i]);
      }
    }
  }
  return __byte_perm(__float_as_uint(sums[1]), __float_as_uint(sums[0]), 0x5410);  // the lower halves
}

}  // namespace rtopk::cuda
