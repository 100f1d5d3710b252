// What the ways to route a row share: loads, the exact score of one expert, the order of biased scores, the result.
#pragma once

#include <cstdint>

#include "core/keys.hpp"
#include "core/moe/score.hpp"
#include "cuda/route/launch.hpp"
#include "cuda/runtime/as_float.cuh"
#include "cuda/runtime/lanes.cuh"

namespace rtopk::cuda {

/// What the scores of a row have in common; only softmax has any.
struct SoftmaxRow {
  float greatest = 0.0f;
  float inverse_sum = 0.0f;
};

[[nodiscard]] __device__ inline float score_of(moe::Score score, float logit, const SoftmaxRow& softmax) {
  if (score == moe::Score::sigmoid) return core::sigmoid(logit);
  if (score == moe::Score::sqrtsoftplus) return core::sqrt_of_softplus(logit);
  return core::rounded_product(core::softmax_power(logit, softmax.greatest), softmax.inverse_sum);
}

/// The key of a biased score: the contract's order.
[[nodiscard]] __device__ inline std::uint32_t biased_key(const RouteArguments& args, float score, float bias) {
  return core::key_of(args.call.bias == nullptr ? score : core::rounded_sum(score, bias));
}
[[nodiscard]] __device__ inline std::uint32_t biased_key(const RouteArguments& args, float score, int expert) {
  return biased_key(args, score, args.call.bias == nullptr ? 0.0f : args.call.bias[expert]);
}

/// The sum of all lanes: neighbours in pairs, as core/moe/score.hpp says.
[[nodiscard]] __device__ inline float sum_of_neighbours(float x) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    x = core::rounded_sum(x, __shfl_xor_sync(kFullWarp, x, distance));
  }
  return x;
}

[[nodiscard]] __device__ inline float greatest_of_lanes(float x) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, distance));
  return x;
}

/// Writes the result of row `number`. The lane that has place i < k of it has the score and the number of the expert of
/// rank i. All lanes of a warp take part; other rows may have a part of them.
__device__ inline void write_routes(const RouteArguments& args, std::int64_t number, int place, bool has_route,
                                    float score, int expert) {
  float sum = has_route ? score : 0.0f;
  // As far as there are routes: further sums are zero.
  for (int distance = 1; distance < args.k; distance *= 2) {
    sum = core::rounded_sum(sum, __shfl_xor_sync(kFullWarp, sum, distance));
  }
  if (!has_route) return;
  const std::int64_t at = number * args.k + place;
  args.call.weights[at] = core::routed_weight(score, sum, args.renormalize, args.scale);
  args.call.ids[at] = expert;
}

}  // namespace rtopk::cuda
