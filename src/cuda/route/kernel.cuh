// The routing kernel: a warp takes one row after another, or two.
#pragma once

#include "cuda/route/exact.cuh"
#include "cuda/route/fast.cuh"
#include "plan/tuning_route.hpp"

namespace rtopk::cuda {

/// Routes the rows from `first` on, up to rows_at_once of them. Candidates are listed row by row, by all lanes; then
/// each row has its share of the lanes, because a row has few candidates.
template <class T, int kPerLane>
__device__ void route_rows(const RouteArguments& args, std::int64_t first, int lane, std::uint32_t* memory) {
  auto* candidates = reinterpret_cast<std::int32_t*>(memory + args.experts + args.groups);
  const int lanes = args.rows_at_once == 1 ? 32 : 16;
  const int rows = static_cast<int>(min(args.rows - first, std::int64_t{args.rows_at_once}));
  const auto row_of = [&](int r) {
    const T* logits = static_cast<const T*>(args.call.logits) + (first + r) * args.experts;
    return RouteRow<T>{args, logits, lane, memory, candidates + r * lanes, lanes};
  };
  int count = 0;  // of the lane's own row
  SoftmaxRow softmax;
  unsigned open = 0;
#pragma unroll 1
  for (int r = 0; r < rows; ++r) {
    const RouteRow<T> row = row_of(r);
    FastRow<T, kPerLane> fast(row);
    const int listed = args.fast ? fast.list() : 0;
    if (listed == 0) open |= 1u << r;
    if (lane - r * lanes >= 0 && lane - r * lanes < lanes) {
      count = listed;
      softmax = fast.softmax();
    }
  }
  if (open != (1u << rows) - 1u) {
    Candidates<T>(args, first, lane, candidates, reinterpret_cast<float*>(candidates + 32)).write(count, softmax);
  }
#pragma unroll 1
  for (int r = 0; r < rows; ++r) {
    if ((open >> r & 1u) != 0) route_exactly(row_of(r), first + r);
  }
}

template <class T, int kPerLane>
__global__ void __launch_bounds__(kRouteThreads, route_blocks(kPerLane)) route_kernel(RouteArguments args) {
  extern __shared__ std::uint32_t route_memory[];
  // From a shuffle the compiler knows that all lanes have the same, and does not prepare for a warp that is taken apart.
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / 32, 0);
  std::uint32_t* memory = route_memory + warp * (args.experts + args.groups + 64);
  const std::int64_t step = std::int64_t{gridDim.x} * kRouteWarps * args.rows_at_once;
  std::int64_t first = (std::int64_t{blockIdx.x} * kRouteWarps + warp) * args.rows_at_once;
  for (; first < args.rows; first += step) {
    route_rows<T, kPerLane>(args, first, static_cast<int>(threadIdx.x) % 32, memory);
  }
}

}  // namespace rtopk::cuda
