// Marks of a thread's elements: one bit each, 32 to a word, the first element's in the highest bit.
#pragma once

#include <cstdint>

#include "cuda/select/at_most.cuh"
#include "plan/select/tuning_block.hpp"

namespace rtopk::cuda {

/// Compares a chunk with one bound, or with two at a time. One element a word.
template <class T, bool kMagnitude>
struct BlockChunk {
  using Bound = typename AtMost<T>::Bound;
  static constexpr int kMarkWords = 1;

  template <bool kTwo>
  static __device__ void at_most(std::uint32_t from, Bound a, Bound b, unsigned (&of_a)[1], unsigned (&of_b)[1]) {
    constexpr int kBits = 16;  // of a sum
    float sums_a[2];
    float sums_b[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sums_a[half] = AtMost<T>::kNoMarks;
      sums_b[half] = AtMost<T>::kNoMarks;
#pragma unroll
      for (int j = 0; j < kBits; ++j) {
        const Bound x = load(from + static_cast<std::uint32_t>((half * kBits + j) * sizeof(T)));
        const auto power = static_cast<float>(1 << (kBits - 1 - j));
        sums_a[half] = fmaf(AtMost<T>::one(x, a), power, sums_a[half]);
        if constexpr (kTwo) sums_b[half] = fmaf(AtMost<T>::one(x, b), power, sums_b[half]);
      }
    }
    // The lower halves of two sums make one word.
    of_a[0] = __byte_perm(__float_as_uint(sums_a[1]), __float_as_uint(sums_a[0]), 0x5410);
    of_b[0] = __byte_perm(__float_as_uint(sums_b[1]), __float_as_uint(sums_b[0]), 0x5410);
  }

 private:
  static __device__ float load_as(std::uint32_t from, float) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
  }
  static __device__ double load_as(std::uint32_t from, double) {
    double x;
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(from) : "memory");
    return x;
  }
  static __device__ std::int32_t load_as(std::uint32_t from, std::int32_t) {
    std::int32_t x;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
  }
  static __device__ Bound load(std::uint32_t from) {
    const Bound x = load_as(from, Bound{});
    return kMagnitude ? AtMost<T>::magnitude(x) : x;
  }
};

/// Two elements a word, compared by one instruction.
template <class T, bool kMagnitude>
struct BlockPairs {
  using Bound = unsigned;
  static constexpr int kMarkWords = 2;

  template <bool kTwo>
  static __device__ void at_most(std::uint32_t from, Bound a, Bound b, unsigned (&of_a)[2], unsigned (&of_b)[2]) {
    // The elements of the first 16 words go to the upper halves of registers, those of the others to the lower ones.
    unsigned halves_a[2] = {};
    unsigned halves_b[2] = {};
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const unsigned first = load(from + static_cast<std::uint32_t>(4 * i));
      const unsigned second = load(from + static_cast<std::uint32_t>(4 * (16 + i)));
      const unsigned low = __byte_perm(second, first, 0x5410);
      const unsigned high = __byte_perm(second, first, 0x7632);
      const unsigned bit = 0x80008000u >> (2 * i % 16);
      halves_a[i / 8] |= PairAtMost<T>::halves(low, a) & bit;
      if constexpr (kTwo) halves_b[i / 8] |= PairAtMost<T>::halves(low, b) & bit;
      halves_a[i / 8] |= PairAtMost<T>::halves(high, a) & bit >> 1;
      if constexpr (kTwo) halves_b[i / 8] |= PairAtMost<T>::halves(high, b) & bit >> 1;
    }
    of_a[0] = __byte_perm(halves_a[1], halves_a[0], 0x7632);
    of_a[1] = __byte_perm(halves_a[1], halves_a[0], 0x5410);
    of_b[0] = __byte_perm(halves_b[1], halves_b[0], 0x7632);
    of_b[1] = __byte_perm(halves_b[1], halves_b[0], 0x5410);
  }

 private:
  static __device__ unsigned load(std::uint32_t from) {
    unsigned x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    return kMagnitude ? AtMost<T>::magnitude(x) : x;
  }
};

template <bool kMagnitude>
struct BlockChunk<core::F16, kMagnitude> : BlockPairs<core::F16, kMagnitude> {};
template <bool kMagnitude>
struct BlockChunk<core::BF16, kMagnitude> : BlockPairs<core::BF16, kMagnitude> {};

/// Marks of the first `number` of 32 elements; it may be out of range.
__device__ inline unsigned first_marks(int number) { return number <= 0 ? 0u : number >= 32 ? ~0u : ~(~0u >> number); }

}  // namespace rtopk::cuda
