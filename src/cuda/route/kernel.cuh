// The routing kernel: a warp takes one row after another.
#pragma once

#include "cuda/route/exact.cuh"
#include "cuda/route/fast.cuh"
#include "plan/tuning_route.hpp"

namespace rtopk::cuda {

template <class T, int kPerLane>
__global__ void __launch_bounds__(kRouteThreads, route_blocks(kPerLane)) route_kernel(RouteArguments args) {
  extern __shared__ std::uint32_t route_memory[];
  // From a shuffle the compiler knows that all lanes have the same, and does not prepare for a warp that is taken apart.
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / 32, 0);
  const int words = args.experts + args.groups;
  std::uint32_t* memory = route_memory + warp * (words + 64);
  const std::int64_t step = std::int64_t{gridDim.x} * kRouteWarps;
  for (std::int64_t number = std::int64_t{blockIdx.x} * kRouteWarps + warp; number < args.rows; number += step) {
    const RouteRow<T> row{args,
                          static_cast<const T*>(args.call.logits) + number * args.experts,
                          static_cast<int>(threadIdx.x) % 32,
                          memory,
                          reinterpret_cast<std::int32_t*>(memory + words),
                          reinterpret_cast<float*>(memory + words + 32)};
    if (args.fast && FastRow<T, kPerLane>(row).route(number)) continue;
    route_exactly(row, number);
  }
}

}  // namespace rtopk::cuda
