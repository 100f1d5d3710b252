// Marks of the elements of a lane that reach a threshold: one bit each, the first element's in the highest bit of the
// first word.
//
// A comparison gives 1 or 0 as a float, and a multiplication by a power of two moves it to its bit in the mantissa of a
// sum. That is as fast as counting alone, because the two run on different pipes on sm_90. And marks tell more than a
// count: how many elements, which ones, and their order.
#pragma once

#include "cuda/select/element.cuh"

namespace rtopk::cuda {

/// Marks of R neighbouring elements.
template <int R>
struct Marks {
  static constexpr int kWords = (R + 31) / 32;
  unsigned words[kWords];

  static __device__ Marks none() {
    Marks marks;
#pragma unroll
    for (int w = 0; w < kWords; ++w) marks.words[w] = 0;
    return marks;
  }
  /// Marks of the first `number` elements, which may be out of range.
  static __device__ Marks first(int number) {
    Marks marks;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      constexpr int kAll = 32;
      const int here = min(max(number - 32 * w, 0), min(kAll, R - 32 * w));
      marks.words[w] = here == 0 ? 0u : ~0u << (kAll - here);
    }
    return marks;
  }

  [[nodiscard]] __device__ int count() const {
    int number = __popc(words[0]);
#pragma unroll
    for (int w = 1; w < kWords; ++w) number += __popc(words[w]);
    return number;
  }
  /// `r` must be a compile-time constant; otherwise the compiler would not keep the words in registers.
  [[nodiscard]] __device__ bool has(int r) const { return (words[r / 32] << (r % 32) & 0x80000000u) != 0; }
  __device__ void add(int r) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) words[w] |= r / 32 == w ? 0x80000000u >> (r % 32) : 0u;
  }

  /// Calls `f` with the word, the bit and the number of each marked element, in index order.
  template <class F>
  __device__ void for_each(F&& f) const {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
#pragma unroll 1
      for (unsigned left = words[w]; left != 0;) {
        const int bit = 31 - __clz(static_cast<int>(left));
        left ^= 1u << bit;
        f(w, bit, 32 * w + 31 - bit);
      }
    }
  }

  /// Clears the first mark, or the last, and returns its number, which is invalid if there was none.
  __device__ int pop(bool first) {
    int r = -1;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int w = first ? i : kWords - 1 - i;
      const int bit = first ? 31 - __clz(static_cast<int>(words[w])) : __ffs(static_cast<int>(words[w])) - 1;
      const bool here = r < 0 && words[w] != 0;
      words[w] ^= here ? 1u << bit : 0u;
      r = here ? 32 * w + 31 - bit : r;
    }
    return r;
  }

  /// Clears the last `number` marks, one after the other: takes fewer registers than keep_first().
  __device__ void drop_last(int number) {
#pragma unroll
    for (int w = kWords - 1; w >= 0; --w) {
#pragma unroll 1
      for (; number > 0 && words[w] != 0; --number) words[w] &= words[w] - 1;
    }
  }
  /// Clears all but the first `number` marks, in as many steps for any number, which may be negative.
  __device__ void keep_first(int number) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int here = __popc(words[w]);
      if (number < here) words[w] = number <= 0 ? 0u : first_of(words[w], number);
      number -= here;
    }
  }

  __device__ Marks operator|(const Marks& other) const {
    return with(other, [](unsigned a, unsigned b) { return a | b; });
  }
  __device__ Marks operator&(const Marks& other) const {
    return with(other, [](unsigned a, unsigned b) { return a & b; });
  }
  /// The marks that `other` does not have.
  __device__ Marks without(const Marks& other) const {
    return with(other, [](unsigned a, unsigned b) { return a & ~b; });
  }
  static __device__ Marks either(bool condition, const Marks& a, const Marks& b) {
    return a.with(b, [&](unsigned x, unsigned y) { return condition ? x : y; });
  }

 private:
  /// The highest `number` bits that are set.
  static __device__ unsigned first_of(unsigned word, int number) {
    int bits = 0;  // fewer than `number` are set in the highest so many
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      if (__popc(word >> (32 - bits - step)) < number) bits += step;
    }
    return word & ~(0x7fffffffu >> bits);
  }

  template <class F>
  __device__ Marks with(const Marks& other, F f) const {
    Marks marks;
#pragma unroll
    for (int w = 0; w < kWords; ++w) marks.words[w] = f(words[w], other.words[w]);
    return marks;
  }
};

template <class T, int R>
__device__ Marks<R> marks_of(const typename Element<T>::Value (&x)[R], typename Element<T>::Value threshold) {
  constexpr int kBits = 16;  // of a sum that starts at 2^23, where the mantissa is an integer
  constexpr int kSums = 2 * Marks<R>::kWords;
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
  Marks<R> marks;
#pragma unroll
  for (int w = 0; w < Marks<R>::kWords; ++w) {
    // The lower halves of two sums make one word.
    marks.words[w] = __byte_perm(__float_as_uint(sums[2 * w + 1]), __float_as_uint(sums[2 * w]), 0x5410);
  }
  return marks;
}

}  // namespace rtopk::cuda
