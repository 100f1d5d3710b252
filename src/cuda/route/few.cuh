// Routes rows of a few experts, one in the registers of every lane: all scores are exact.
#pragma once

#include "cuda/route/row.cuh"
#include "plan/tuning_route.hpp"

namespace rtopk::cuda {

/// The sum of neighbours in pairs, as core/moe/score.hpp says.
template <int kCount>
[[nodiscard]] __device__ float sum_in_pairs(const float (&values)[kCount]) {
  float sums[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i] = values[i];
#pragma unroll
  for (int count = kCount; count > 1; count /= 2) {
#pragma unroll
    for (int i = 0; i < count / 2; ++i) sums[i] = core::rounded_sum(sums[2 * i], sums[2 * i + 1]);
  }
  return sums[0];
}

/// Logits become scores. What is not an expert is -infinity before, and anything afterwards.
template <int kExperts>
__device__ void make_scores(const RouteArguments& args, float (&values)[kExperts]) {
  if (args.score == moe::Score::sigmoid) {
#pragma unroll
    for (float& x : values) x = core::sigmoid(x);
  } else if (args.score == moe::Score::sqrtsoftplus) {
#pragma unroll
    for (float& x : values) x = core::sqrt_of_softplus(x);
  } else {
    float greatest = -INFINITY;
#pragma unroll
    for (const float x : values) greatest = fmaxf(greatest, x);
#pragma unroll
    for (int e = 0; e < kExperts; ++e) {
      values[e] = e < args.experts ? core::softmax_power(values[e], greatest) : 0.0f;
    }
    const float inverse = core::rounded_quotient(1.0f, sum_in_pairs(values));
#pragma unroll
    for (float& x : values) x = core::rounded_product(x, inverse);
  }
}

template <class T, int kExperts>
__device__ void route_few(const RouteArguments& args, std::int64_t number) {
  struct alignas(4 * sizeof(T)) Quad {
    T elements[4];
  };
  const T* logits = static_cast<const T*>(args.call.logits) + number * args.experts;
  float scores[kExperts];
#pragma unroll
  for (int e = 0; e < kExperts; e += 4) {
    if (args.fast && e < args.experts) {  // four at a time
      const Quad quad = *reinterpret_cast<const Quad*>(logits + e);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[e + i] = as_float(quad.elements[i]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[e + i] = e + i < args.experts ? as_float(logits[e + i]) : -INFINITY;
    }
  }
  make_scores(args, scores);
  // Keys are one greater than those of the contract: 0 is for experts that are not, or no longer, to be selected.
  std::uint32_t keys[kExperts];
#pragma unroll
  for (int e = 0; e < kExperts; ++e) keys[e] = e < args.experts ? biased_key(args, scores[e], e) + 1 : 0;
  float chosen[kExperts] = {};
  int experts[kExperts] = {};
#pragma unroll
  for (int rank = 0; rank < kExperts; ++rank) {
    if (rank >= args.k) continue;  // not break, which would make a loop of this
    std::uint32_t best = keys[0];
#pragma unroll
    for (int e = 1; e < kExperts; ++e) best = max(best, keys[e]);
    // The lowest of those that have it.
    bool found = false;
#pragma unroll
    for (int e = 0; e < kExperts; ++e) {
      const bool is_it = !found && keys[e] == best;
      experts[rank] = is_it ? e : experts[rank];
      chosen[rank] = is_it ? scores[e] : chosen[rank];
      keys[e] = is_it ? 0 : keys[e];
      found = found || is_it;
    }
  }
  const float sum = sum_in_pairs(chosen);
#pragma unroll
  for (int rank = 0; rank < kExperts; ++rank) {
    if (rank >= args.k) continue;
    args.call.weights[number * args.k + rank] = core::routed_weight(chosen[rank], sum, args.renormalize, args.scale);
    args.call.ids[number * args.k + rank] = experts[rank];
  }
}

template <class T, int kExperts>
__global__ void __launch_bounds__(kRouteThreads) route_few_kernel(RouteArguments args) {
  const std::int64_t step = std::int64_t{gridDim.x} * kRouteThreads;
  std::int64_t number = std::int64_t{blockIdx.x} * kRouteThreads + threadIdx.x;
  for (; number < args.rows; number += step) route_few<T, kExperts>(args, number);
}

}  // namespace rtopk::cuda
