// What an early-stopped bisection selects, derived from the exact selection: see early_stop.cuh.
#pragma once

#include "cuda/select/early_stop.cuh"
#include "cuda/select/warp/extent.cuh"
#include "cuda/select/warp/lane.cuh"
#include "cuda/select/warp/results.cuh"

namespace rtopk::cuda {

/// Rows with an element that is not finite stay exact.
template <class Row>
__device__ Marks<Row::kElements> stopped_early(const Row& row, const Marks<Row::kElements>& exact) {
  using E = Element<typename Row::Type>;
  using Value = typename E::Value;
  using Lane = WarpLane<Row>;
  using Group = typename Row::Group;
  using M = Marks<Row::kElements>;
  const bool smallest = row.args.smallest;
  const Lane lane(row);
  const WarpExtent<Row, Lane> extent(row, lane);
  Value kth = E::greatest();
  // The more results a lane has, the longer a loop over them takes. Measured, times the exact selection, f32, 256 columns
  // of eight lanes, k 32: 1.35 without the loop, 1.37 with it; 1024 columns of 32 lanes: 1.31, 1.26.
  if constexpr (sizeof(typename Row::Type) == 4 && Group::kLanes <= 8) {
    kth = lane.least_of(exact);
  } else {
    exact.for_each([&](int, int, int r) { kth = E::lesser_or_nan(kth, row.value_at(r)); });
  }
#pragma unroll
  for (int distance = Group::kLanes / 2; distance > 0; distance /= 2) {
    kth = E::lesser_or_nan(kth, __shfl_xor_sync(kFullWarp, kth, distance));
  }
  const auto selection = core::selection_of_kth(row.args, E::arithmetic(extent.least, smallest),
                                                E::arithmetic(extent.greatest, smallest), E::arithmetic(kth, smallest));
  const M sure = M::either(selection.fill_only, M::none(), lane.marks(Lane::reaching(selection.sure, smallest)));
  const M fill = lane.marks(Lane::reaching(selection.fill, smallest)).without(sure);
  const M early = sure | first_in_index_order<Group::kLanes, true>(fill, row.k() - Group::sum(sure.count()));
  return M::either(extent.is_finite(), early, exact);
}

/// The same for kernels that also make exact selections, and need their registers for those.
template <class Row>
__device__ __noinline__ Marks<Row::kElements> stopped_early_in_a_call(const Row row, Marks<Row::kElements> exact) {
  return stopped_early(row, exact);
}

}  // namespace rtopk::cuda
