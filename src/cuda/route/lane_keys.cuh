// Keys of the kernel that gives each lane a row: a biased score and its expert in one integer, and lists of the eight
// greatest.
//
//   bits   31 ........................ 9   8 .............. 0
//          fraction of a number in [1, 2)   511 - the expert
//
// Biased scores are scaled to numbers from 1 to 2. These have the same exponent, so that all bits of the fraction fit
// beside the expert, and no precision is lost to it. One multiplication by 2^9 shifts the exponent out. Every NaN of the
// arithmetic has the bits 0x7fffffff: the greatest key. Infinity has the least.
#pragma once

#include <cmath>

#include "cuda/route/approximate.cuh"
#include "cuda/route/row.cuh"
#include "plan/tuning_route.hpp"

namespace rtopk::cuda {

inline constexpr int kLaneList = static_cast<int>(kMaxLaneRoutes);
inline constexpr std::uint32_t kLaneExpertMask = static_cast<std::uint32_t>(kMaxLaneExperts) - 1u;
inline constexpr int kLaneExpertBits = 9;
inline constexpr int kLaneNoScore = 0;               ///< The fraction of what must not be selected.
inline constexpr int kLaneMaxScore = (1 << 23) - 2;  ///< From here on: NaN, and scores that are too great.

[[nodiscard]] __device__ inline int score_of_key(std::uint32_t key) { return static_cast<int>(key >> kLaneExpertBits); }
[[nodiscard]] __device__ inline int expert_of_key(std::uint32_t key) {
  return static_cast<int>(kLaneExpertMask - (key & kLaneExpertMask));
}

/// How biased scores become fractions, the same for all rows: score * factor + the expert's term. For softmax, logits
/// take the place of scores.
struct LaneScale {
  float factor;
  int error;  ///< What the difference of two fractions must exceed to be certain, beside max_relative_error.
};

/// Scores that are scaled to less than 2. Those of sqrtsoftplus have no bound: greater ones leave the row open.
template <moe::Score kScore>
inline constexpr float kLaneMaxBiased = kScore == moe::Score::sigmoid ? 1.0f : 8.0f;
/// Logits of softmax beyond this leave the row open.
inline constexpr float kLaneMaxLogit = 32.0f;

/// The part of the error that grows with the score, for two of them, twice over: see approximate_sqrt_of_softplus.
template <moe::Score kScore>
[[nodiscard]] __device__ int relative_error(int score) {
  return kScore == moe::Score::sqrtsoftplus ? score >> 17 : 0;
}

/// The scale for biases of which `least` and `greatest` are the ends, minus infinity not counted.
template <moe::Score kScore>
[[nodiscard]] __device__ LaneScale lane_scale(float least, float greatest) {
  // The difference from the greatest logit is rounded to within 2^-18 before scores are compared, half of a unit here;
  // the fraction to within one. Twice over, for two.
  if constexpr (kScore == moe::Score::softmax) return {0.5f / kLaneMaxLogit, 8};
  const float factor = 0.984375f / (kLaneMaxBiased<kScore> + (greatest - least));
  // In units of the last bit. An approximate sigmoid and an exact one: 2^-21. The fraction, and the term in it: 2.5.
  // The sum with the bias in the exact score: 2^-24 of it, and as much in the sum of a group. All twice over, for two.
  constexpr float kOfScore = kScore == moe::Score::sigmoid ? 4.0f : 0.0f;
  const float of_sum = kLaneMaxBiased<kScore> + fmaxf(fabsf(least), fabsf(greatest));
  const float error = 4.0f * (2.5f + factor * (kOfScore + of_sum));
  constexpr float kNeverCertain = 0x1p28f;  // also if this is NaN
  return {factor, static_cast<int>(fminf(error + 1.0f, kNeverCertain))};
}

/// The term of an expert with this bias.
template <moe::Score kScore>
[[nodiscard]] __device__ float lane_term(float bias, float least, const LaneScale& scale) {
  if (bias == -INFINITY) return -INFINITY;
  if constexpr (kScore == moe::Score::softmax) return 0.5f;
  return 1.00390625f + (bias - least) * scale.factor;
}

/// A number from 1 to 2 in the order of biased scores; NaN, or infinity for what must not be selected.
template <moe::Score kScore>
[[nodiscard]] __device__ float scaled_score(float logit, float term, const LaneScale& scale) {
  if constexpr (kScore == moe::Score::softmax) {
    // No exponential is needed. NaN becomes 0 here, and is found in the sum of powers.
    return fmaf(__saturatef(fmaf(logit, scale.factor, term)), 0x1.fffffcp-1f, 1.0f);
  } else if constexpr (kScore == moe::Score::sigmoid) {
    return fmaf(approximate_sigmoid(logit), scale.factor, term);
  } else {
    return least_or_nan(fmaf(approximate_sqrt_of_softplus(logit), scale.factor, term), 0x1.fffffep0f);
  }
}

__device__ inline void order(std::uint32_t& first, std::uint32_t& second) {
  const std::uint32_t greater = max(first, second);
  second = min(first, second);
  first = greater;
}

/// Greatest first: 19 exchanges, the fewest there are.
__device__ inline void sort_list(std::uint32_t (&list)[kLaneList]) {
  constexpr int kExchanges[19][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 1}, {2, 3},
                                     {4, 5}, {6, 7}, {2, 4}, {3, 5}, {1, 4}, {3, 6}, {1, 2}, {3, 4}, {5, 6}};
#pragma unroll
  for (int i = 0; i < 19; ++i) order(list[kExchanges[i][0]], list[kExchanges[i][1]]);
}

/// The greatest of both lists, in order. `beyond` becomes the greatest key that was ever left out.
__device__ inline void merge_list(std::uint32_t (&list)[kLaneList], const std::uint32_t (&other)[kLaneList],
                                  std::uint32_t& beyond) {
#pragma unroll
  for (int i = 0; i < kLaneList; i += 2) {
    const std::uint32_t a = other[kLaneList - 1 - i];
    const std::uint32_t b = other[kLaneList - 2 - i];
    beyond = __vimax3_u32(beyond, min(list[i], a), min(list[i + 1], b));
    list[i] = max(list[i], a);
    list[i + 1] = max(list[i + 1], b);
  }
#pragma unroll
  for (int distance = kLaneList / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int i = 0; i < kLaneList; ++i) {
      if ((i & distance) == 0) order(list[i], list[i + distance]);
    }
  }
}

}  // namespace rtopk::cuda
