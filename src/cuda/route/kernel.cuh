// The routing kernels: a warp takes rows, one after another or a few, or each lane takes one.
#pragma once

#include "cuda/route/exact.cuh"
#include "cuda/route/fast.cuh"
#include "cuda/route/few.cuh"

namespace rtopk::cuda {

/// Writes the results of rows from `first` on, each of which has 2^log2_lanes lanes, one for each rank. Returns the
/// lanes that leave their rows open; nothing is written of these rows.
template <class T, int kPerLane, moe::Score kScore>
__device__ unsigned write_found(const RouteArguments& args, const FastRow<T, kPerLane, kScore>& fast,
                                std::int64_t first, int lane, const FoundRoute& found) {
  const int lanes = 1 << args.log2_row_lanes;
  const int rank = lane & (lanes - 1);
  const std::int64_t number = first + (lane >> args.log2_row_lanes);
  const bool has_route = rank < args.k && number < args.rows;
  float logit = 0.0f;
  if (has_route && found.key >= 0) {
    logit = as_float(static_cast<const T*>(args.call.logits)[number * args.experts + found.expert]);
  }
  // The rank before, and, behind the last rank, what was not selected.
  const int key_before = __shfl_up_sync(kFullWarp, found.key, 1);
  const int expert_before = __shfl_up_sync(kFullWarp, found.expert, 1);
  const float logit_before = __shfl_up_sync(kFullWarp, logit, 1);
  const float score = __int_as_float(found.key);
  const float score_before = __int_as_float(key_before);
  // Without a bias, experts with the same logit have the same exact score.
  const bool same_score =
      fast.is_exact() ? key_before == found.key : args.call.bias == nullptr && logit == logit_before;
  const bool ties_well = same_score && expert_before < found.expert;
  const bool certain_before = rank == 0 || ties_well || score_before - score > fast.error(score_before);
  // Lanes that have one part were taken in ascending order.
  const bool next_ties_well = fast.is_exact() && !fast.kSeveralParts && found.next == found.key;
  const bool certain_behind =
      rank + 1 < args.k || found.next < 0 || next_ties_well || score - __int_as_float(found.next) > fast.error(score);
  const bool is_finite = found.key >= 0 && found.key < kInfiniteKey && found.next < kInfiniteKey;
  const unsigned open = __ballot_sync(kFullWarp, has_route && !(is_finite && certain_before && certain_behind));
  const unsigned of_row = (kFullWarp >> (32 - lanes)) << (lane - rank);
  const bool writes = has_route && (open & of_row) == 0;
  float exact = score;
  if (!fast.is_exact()) exact = score_of(kScore, logit, found.softmax);
  write_routes(args, number, rank, writes, exact, found.expert);
  return open;
}

template <class T, int kPerLane, moe::Score kScore>
__global__ void __launch_bounds__(kRouteThreads, route_blocks(kScore, kPerLane)) route_kernel(RouteArguments args) {
  extern __shared__ std::uint32_t route_memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TakenKey* places = reinterpret_cast<TakenKey*>(route_memory) + 32 * warp;
  std::uint32_t* memory = route_memory + kRoutePlaceWords * kRouteWarps + warp * (args.experts + args.groups);
  const int log2_lanes = args.log2_row_lanes;
  const int rows_at_once = args.rows_at_once;
  // All warps of a block make the same number of turns, behind the last row too: so the compiler knows that lanes stay
  // together, and does not prepare for a warp that is taken apart.
  const std::int64_t step = std::int64_t{gridDim.x} * kRouteWarps * rows_at_once;
  const std::int64_t begin = (std::int64_t{blockIdx.x} * kRouteWarps + warp) * rows_at_once;
  FastRow<T, kPerLane, kScore> fast(args, lane, {begin, begin * args.next_row.bytes});
#pragma unroll 1
  for (std::int64_t block_first = std::int64_t{blockIdx.x} * kRouteWarps * rows_at_once; block_first < args.rows;
       block_first += step) {
    const std::int64_t first = block_first + warp * rows_at_once;
    FoundRoute found;
#pragma unroll 1
    for (int r = 0; r < rows_at_once; ++r) {
      fast.score();
      fast.load(r + 1 < rows_at_once ? args.next_row : args.next_turn);
      const int rank = lane - (r << log2_lanes);
      fast.select(places + (r << log2_lanes), rank, lane >> log2_lanes == r, found);
    }
    fast.take(places[lane], (lane & ((1 << log2_lanes) - 1)) < args.k, found);
    const unsigned open = write_found(args, fast, first, lane, found);
    if (open == 0) continue;
#pragma unroll 1
    for (int r = 0; r < rows_at_once; ++r) {
      if ((open >> (r << log2_lanes) & (kFullWarp >> (32 - (1 << log2_lanes)))) == 0) continue;
      route_exactly(exact_row<T>(args, first + r, lane, memory), first + r);
    }
  }
}

/// The same for shapes that registers do not take: see is_fast in run.cpp.
template <class T>
__global__ void __launch_bounds__(kRouteThreads) route_exactly_kernel(RouteArguments args) {
  extern __shared__ std::uint32_t route_memory[];
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / 32, 0);
  std::uint32_t* memory = route_memory + warp * (args.experts + args.groups);
  const std::int64_t step = std::int64_t{gridDim.x} * kRouteWarps;
  std::int64_t number = std::int64_t{blockIdx.x} * kRouteWarps + warp;
  for (; number < args.rows; number += step) {
    route_exactly(exact_row<T>(args, number, static_cast<int>(threadIdx.x) % 32, memory), number);
  }
}

}  // namespace rtopk::cuda
