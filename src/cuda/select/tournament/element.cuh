// Operations of cuda_tournament on words: one element of 64 or 32 bits, or two of 16.
//
// They are compared in their own type. Minima and maxima with NaN are NaN. In a sorting network any input can reach any
// output, so that NaN among the elements makes the kth value NaN. Only then is NaN treated as infinity. Elements of 64
// bits, which have no such instructions, are compared as integers: as sort keys.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <limits>

#include "core/keys.hpp"
#include "cuda/select/element.cuh"

namespace rtopk::cuda {

/// Operations on words of one or two elements.
template <class T>
struct TournamentElement;

template <>
struct TournamentElement<float> {
  using Word = float;
  static constexpr int kPerWord = 1;
  static constexpr bool kHasNan = true;

  static __device__ Word from_bits(std::uint32_t bits) { return __uint_as_float(bits); }
  static __device__ std::uint32_t without_sign(std::uint32_t bits) { return bits & 0x7fffffffu; }
  static __device__ Word greater(Word a, Word b) { return Element<float>::greater_or_nan(a, b); }
  static __device__ Word lesser(Word a, Word b) { return Element<float>::lesser_or_nan(a, b); }
  static __device__ Word least() { return -__uint_as_float(0x7f800000u); }
  static __device__ Word greatest() { return __uint_as_float(0x7f800000u); }
  /// The value of a directed word, as the paper's algorithms see it, and the least word whose value reaches a threshold.
  static __device__ float arithmetic(Word x, bool) { return x; }
  static __device__ Word reaching(float threshold, bool) { return threshold; }
  /// Larger for elements that come first. NaN becomes the infinity of the same rank.
  static __device__ Word directed(Word x, bool smallest) {
    // The minimum of a number and NaN is the number.
    return __fmul_rn(fminf(x, __uint_as_float(0x7f800000u)), smallest ? -1.0f : 1.0f);
  }
  /// For the kth value.
  static __device__ bool is_nan(Word kth) { return kth != kth; }
  static __device__ bool is_infinite(Word kth) { return fabsf(kth) == __uint_as_float(0x7f800000u); }

  // The sign of a difference is a mark that needs no predicate, and subtractions and comparisons run on different
  // pipes. The sign is clear for equal values, and for infinity minus infinity, which is the NaN without a sign. It is
  // also clear for two zeros of any signs, if the sign of a zero kth value is chosen well.

  /// A bit for each of up to 32 elements, the first in the highest bit: set if the element is at or above the kth
  /// value.
  template <int N>
  static __device__ unsigned at_least(const Word (&x)[N], Word kth) {
    const float negated = __fadd_rn(-kth, 0.0f);  // of zero: +0
    unsigned less = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) less = __funnelshift_l(__float_as_uint(__fadd_rn(x[i], negated)), less, 1);
    return ~less << (32 - N);
  }
  /// The same for elements above the kth value.
  template <int N>
  static __device__ unsigned above(const Word (&x)[N], Word kth) {
    const float positive = __fadd_rn(kth, 0.0f);
    unsigned greater = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) greater = __funnelshift_l(__float_as_uint(__fadd_rn(positive, -x[i])), greater, 1);
    return greater << (32 - N);
  }
  template <int N>
  static __device__ unsigned is_nan(const Word (&x)[N]) {
    unsigned marks = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      marks = __funnelshift_l((__float_as_uint(x[i]) & 0x7fffffffu) + 0x007fffffu, marks, 1);  // a carry into the sign
    }
    return marks << (32 - N);
  }
};

/// What elements that are compared as integers have in common.
template <class Integer>
struct TournamentIntegers {
  using Word = Integer;
  static constexpr int kPerWord = 1;
  static constexpr bool kHasNan = false;

  static __device__ Word greater(Word a, Word b) { return a > b ? a : b; }
  static __device__ Word lesser(Word a, Word b) { return a > b ? b : a; }
  static __device__ Word least() { return std::numeric_limits<Word>::min(); }
  static __device__ Word greatest() { return std::numeric_limits<Word>::max(); }
  static __device__ Word directed(Word x, bool smallest) { return smallest ? ~x : x; }

  template <int N>
  static __device__ unsigned at_least(const Word (&x)[N], Word kth) {
    unsigned marks = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) marks |= x[i] >= kth ? 0x80000000u >> i : 0u;
    return marks;
  }
  template <int N>
  static __device__ unsigned above(const Word (&x)[N], Word kth) {
    unsigned marks = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) marks |= x[i] > kth ? 0x80000000u >> i : 0u;
    return marks;
  }
};

template <>
struct TournamentElement<std::int32_t> : TournamentIntegers<std::int32_t> {
  static __device__ Word from_bits(std::uint32_t bits) { return static_cast<std::int32_t>(bits); }
  /// Minus the absolute value, which always exists.
  static __device__ std::uint32_t without_sign(std::uint32_t bits) {
    return static_cast<std::int32_t>(bits) < 0 ? bits : 0u - bits;
  }
  static __device__ double arithmetic(Word x, bool smallest) { return Element<std::int32_t>::arithmetic(x, smallest); }
  static __device__ Word reaching(double threshold, bool smallest) {
    return Element<std::int32_t>::reaching(threshold, smallest);
  }
};

template <>
struct TournamentElement<double> : TournamentIntegers<std::uint64_t> {
  static __device__ std::uint64_t without_sign(std::uint64_t bits) { return bits << 1 >> 1; }
  static __device__ Word from_bits(std::uint64_t bits) {
    return Element<double>::sort_key(__longlong_as_double(static_cast<std::int64_t>(bits)));
  }
  static __device__ double arithmetic(Word x, bool smallest) {
    return smallest ? -Element<double>::from_sort_key(~x) : Element<double>::from_sort_key(x);
  }
  static __device__ Word reaching(double threshold, bool smallest) {
    return smallest ? ~Element<double>::sort_key(-threshold) : Element<double>::sort_key(threshold);
  }
};

/// Two elements of 16 bits in a word, with the operations of `Pair`.
template <class Pair>
struct TournamentPairs {
  using Word = typename Pair::Word;
  static constexpr int kPerWord = 2;
  static constexpr bool kHasNan = true;

  static __device__ std::uint32_t bits(Word x) { return *reinterpret_cast<const std::uint32_t*>(&x); }
  static __device__ Word from_bits(std::uint32_t bits) { return *reinterpret_cast<const Word*>(&bits); }
  static __device__ std::uint32_t without_sign(std::uint32_t bits) { return bits & 0x7fff7fffu; }
  static __device__ Word greater(Word a, Word b) { return __hmax2_nan(a, b); }
  static __device__ Word lesser(Word a, Word b) { return __hmin2_nan(a, b); }
  static __device__ Word least() { return from_bits(Pair::kInfinity | 0x80008000u); }
  static __device__ Word greatest() { return from_bits(Pair::kInfinity); }
  /// Of a word with the same element in both halves.
  static __device__ float arithmetic(Word x, bool) { return __low2float(x); }
  static __device__ Word reaching(float threshold, bool) { return Pair::at_or_above(threshold); }
  static __device__ Word directed(Word x, bool smallest) {
    return from_bits(bits(__hmin2(x, from_bits(Pair::kInfinity))) ^ (smallest ? 0x80008000u : 0u));
  }
  // For the kth value, which is in both halves.
  static __device__ bool is_nan(Word kth) { return (nan_signs(kth) & 0x8000u) != 0; }
  static __device__ bool is_infinite(Word kth) { return (bits(kth) & 0x7fffu) == (Pair::kInfinity & 0x7fffu); }
  static __device__ Word halves_swapped(Word x) { return from_bits(__byte_perm(bits(x), 0, 0x1032)); }

  template <int N>
  static __device__ unsigned at_least(const Word (&x)[N], Word kth) {
    const Word negated = __hadd2_rn(__hneg2(kth), zero());
    return ~signs(x, [&](Word one) { return bits(__hadd2_rn(one, negated)); }) & (~0u << (32 - 2 * N));
  }
  template <int N>
  static __device__ unsigned above(const Word (&x)[N], Word kth) {
    const Word positive = __hadd2_rn(kth, zero());
    return signs(x, [&](Word one) { return bits(__hsub2_rn(positive, one)); });
  }
  template <int N>
  static __device__ unsigned is_nan(const Word (&x)[N]) {
    return signs(x, [](Word one) { return nan_signs(one); });
  }

 private:
  static __device__ Word zero() { return from_bits(0); }
  /// Bits larger than infinity's carry into the sign.
  static __device__ std::uint32_t nan_signs(Word x) {
    return (bits(x) & 0x7fff7fffu) + (0x7fff7fffu - Pair::kInfinity);
  }

  /// The signs of up to 32 differences, the first in the highest bit. Four signs at a time are spread to bytes, 0 or
  /// -1. A dot product of four bytes puts them in their places; the sum stays negated until the end.
  template <int N, class Difference>
  static __device__ unsigned signs(const Word (&x)[N], Difference difference) {
    static_assert(N % 4 == 0);
    std::uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      sum = add_signs<0x10204080u>(sum * 256, difference(x[i]), difference(x[i + 1]));
      sum = add_signs<0x01020408u>(sum, difference(x[i + 2]), difference(x[i + 3]));
    }
    return (0u - sum) << (32 - 2 * N);
  }
  template <std::uint32_t kPlaces>
  static __device__ std::uint32_t add_signs(std::uint32_t sum, std::uint32_t first, std::uint32_t second) {
    std::uint32_t spread;
    asm("prmt.b32 %0, %1, %2, 0xfdb9;" : "=r"(spread) : "r"(first), "r"(second));
    asm("dp4a.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(spread), "n"(kPlaces));
    return sum;
  }
};

struct TournamentHalves {
  using Word = __half2;
  static constexpr std::uint32_t kInfinity = 0x7c007c00u;
  static __device__ Word at_or_above(float x) { return __half2half2(__float2half_ru(x)); }
};
struct TournamentBrains {
  using Word = __nv_bfloat162;
  static constexpr std::uint32_t kInfinity = 0x7f807f80u;
  static __device__ Word at_or_above(float x) { return __bfloat162bfloat162(__float2bfloat16_ru(x)); }
};
template <>
struct TournamentElement<core::F16> : TournamentPairs<TournamentHalves> {};
template <>
struct TournamentElement<core::BF16> : TournamentPairs<TournamentBrains> {};

}  // namespace rtopk::cuda
