// What kernels share in which lanes have lists of keys: a term for each expert in shared memory, and vectors of logits.
#pragma once

#include "cuda/route/lane_keys.cuh"

namespace rtopk::cuda {

/// Writes the terms of all experts, and of what is behind the last, to the block's shared memory. `meanwhile` is called
/// once the bias is on its way: many logits before it would delay it.
template <moe::Score kScore, class F>
__device__ LaneScale write_terms(const RouteArguments& args, float* terms, F&& meanwhile) {
  constexpr int kPerThread = static_cast<int>(kMaxLaneExperts / kRouteThreads);
  __shared__ float least_of_warps[kRouteWarps];
  __shared__ float greatest_of_warps[kRouteWarps];
  const int thread = static_cast<int>(threadIdx.x);
  float bias[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int e = thread + i * kRouteThreads;
    bias[i] = -INFINITY;
    if (e < args.experts) bias[i] = args.call.bias == nullptr ? 0.0f : args.call.bias[e];
  }
  meanwhile();
  // The ends of what is above minus infinity. NaN makes the greatest infinite: then no row is certain.
  float least = INFINITY;
  float greatest = -INFINITY;
#pragma unroll
  for (const float x : bias) {
    if (x != -INFINITY) least = fminf(least, x);
    greatest = x == x ? fmaxf(greatest, x) : INFINITY;
  }
  least = -greatest_of_lanes(-least);
  greatest = greatest_of_lanes(greatest);
  if (thread % 32 == 0) {
    least_of_warps[thread / 32] = least;
    greatest_of_warps[thread / 32] = greatest;
  }
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < kRouteWarps; ++warp) {
    least = fminf(least, least_of_warps[warp]);
    greatest = fmaxf(greatest, greatest_of_warps[warp]);
  }
  const LaneScale scale = lane_scale<kScore>(least, greatest);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int e = thread + i * kRouteThreads;
    if (e < lane_experts(args.experts)) terms[e] = lane_term<kScore>(bias[i], least, scale);
  }
  __syncthreads();
  return scale;
}

/// 16 bytes of a lane's row in shared memory, as numbers.
template <class T>
struct LaneVector {
  static constexpr int kCount = static_cast<int>(16 / sizeof(T));
  struct alignas(16) Elements {
    T elements[kCount];
  };
  float values[kCount];

  explicit __device__ LaneVector(const char* from) {
    const Elements loaded = *reinterpret_cast<const Elements*>(from);
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = as_float(loaded.elements[i]);
  }
};

}  // namespace rtopk::cuda
