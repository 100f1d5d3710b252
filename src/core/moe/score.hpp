// Scores of a router, for host and device. Every operation is rounded by itself, so that all devices have the same
// bits: selections compare these scores, and a difference in the last bit would select another expert.
//
// There is no fused multiply-add: a CPU of the baseline has none, and calling one takes longer than all the rest.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/attributes.hpp"

namespace rtopk::core {

// The compiler may fuse a * b + c for a GPU, but not these.
[[nodiscard]] RTOPK_HD inline float rounded_sum(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
[[nodiscard]] RTOPK_HD inline float rounded_product(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
[[nodiscard]] RTOPK_HD inline float rounded_quotient(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}
[[nodiscard]] RTOPK_HD inline float rounded_root(float x) noexcept {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}

/// c0 + x (c1 + x (c2 + ...)).
template <class... Rest>
[[nodiscard]] RTOPK_HD inline float polynomial(float x, float c0, Rest... rest) noexcept {
  if constexpr (sizeof...(rest) == 0) {
    return c0;
  } else {
    return rounded_sum(c0, rounded_product(x, polynomial(x, rest...)));
  }
}

/// exp(-x) for x >= 0 or NaN, 0 from about 87.7 on. Within 1 ulp of the exact value above 2^-126.
[[nodiscard]] RTOPK_HD inline float exp_of_negated(float x) noexcept {
  constexpr float kLog2E = 0x1.715476p0f;
  constexpr float kRounds = 0x1.8p23f;     // a sum with it is rounded to an integer, in its low bits
  constexpr float kLn2High = 0x1.62ep-1f;  // few bits, so that a product with an integer up to 127 is exact
  constexpr float kLn2Low = 0x1.0bfbe8p-15f;
  const float bounded = !(x >= 88.0f) ? x : 88.0f;  // NaN stays NaN
  const float shifted = rounded_sum(rounded_product(bounded, kLog2E), kRounds);
  const float n = rounded_sum(shifted, -kRounds);
  // exp(-x) = 2^-n exp(r), |r| <= ln(2) / 2.
  const float r = rounded_sum(rounded_sum(rounded_product(n, kLn2High), -bounded), rounded_product(n, kLn2Low));
  // Minimax: (exp(r) - 1 - r) / r^2, to 0.05 ulp of exp(r).
  const float tail = polynomial(r, 0x1.fffffcp-2f, 0x1.555490p-3f, 0x1.5558f4p-5f, 0x1.123a6cp-7f, 0x1.6a234ep-10f);
  const float power = rounded_sum(1.0f, rounded_sum(r, rounded_product(rounded_product(r, r), tail)));
  // 2^-n; n = 127 gives zero.
  const std::uint32_t exponent = 127u - (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRounds));
  return rounded_product(power, std::bit_cast<float>(exponent << 23));
}

[[nodiscard]] RTOPK_HD inline float sigmoid(float x) noexcept {
  const float a = exp_of_negated(x < 0.0f ? -x : x);
  return rounded_quotient(x < 0.0f ? a : 1.0f, rounded_sum(1.0f, a));
}

[[nodiscard]] RTOPK_HD inline float sqrt_of_softplus(float x) noexcept {
  const float a = exp_of_negated(x < 0.0f ? -x : x);
  // log(1 + a) = 2 artanh(s), 0 <= s <= 1/3. Minimax: (2 artanh(s) - 2 s) / s^3 in s^2.
  const float s = rounded_quotient(a, rounded_sum(2.0f, a));
  const float z = rounded_product(s, s);
  const float tail = polynomial(z, 0x1.555558p-1f, 0x1.9996a8p-2f, 0x1.25097cp-2f, 0x1.b6d5b0p-3f, 0x1.f1b2c6p-3f);
  const float logarithm = rounded_sum(rounded_sum(s, s), rounded_product(rounded_product(s, z), tail));
  return rounded_root(rounded_sum(x > 0.0f ? x : 0.0f, logarithm));
}

/// The score of softmax: exp(x - greatest) times the inverse of the sum of these. The sum is made in a fixed order, by
/// every backend: see kScoreSums.
[[nodiscard]] RTOPK_HD inline float softmax_power(float x, float greatest) noexcept {
  return exp_of_negated(rounded_sum(greatest, -x));
}

/// A sum over experts: those with the same number modulo kScoreSums are added in ascending order, then neighbouring
/// sums in pairs, and so on. A lane of a warp has four neighbours of 128 experts.
inline constexpr int kScoreSums = 128;

inline constexpr float kLeastWeightSum = 1e-20f;  ///< Added to the sum of weights before the division by it.

/// The weight of a selected expert. `sum`: of the k scores, added as neighbours in pairs. Every NaN has the same bits.
[[nodiscard]] RTOPK_HD inline float routed_weight(float score, float sum, bool renormalize, float scale) noexcept {
  if (renormalize) score = rounded_quotient(score, rounded_sum(sum, kLeastWeightSum));
  const float weight = rounded_product(score, scale);
  return weight == weight ? weight : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace rtopk::core
