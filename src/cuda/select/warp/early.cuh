// What an early-stopped bisection selects from rows of 16-bit elements, derived from the exact selection: see
// early_stop.cuh.
#pragma once

#include "cuda/select/early_stop.cuh"
#include "cuda/select/warp/lane.cuh"
#include "cuda/select/warp/results.cuh"

namespace rtopk::cuda {

/// Rows with an element that is not finite stay exact.
template <class Row>
__device__ Marks<Row::kElements> stopped_early(const Row& row, const Marks<Row::kElements>& exact) {
  using E = Element<typename Row::Type>;
  using Lane = PackedLane<Row>;
  using Group = typename Row::Group;
  using M = Marks<Row::kElements>;
  float kth = E::greatest();
  exact.for_each([&](int, int, int r) { kth = min(kth, row.value_at(r)); });
  const Lane lane(row);
  typename Lane::Extent extent = lane.extent(row);
#pragma unroll
  for (int distance = Group::kLanes / 2; distance > 0; distance /= 2) {
    kth = min(kth, __shfl_xor_sync(kFullWarp, kth, distance));
    extent.least = E::lesser_or_nan(extent.least, __shfl_xor_sync(kFullWarp, extent.least, distance));
    extent.greatest = E::greater_or_nan(extent.greatest, __shfl_xor_sync(kFullWarp, extent.greatest, distance));
  }
  const core::Selection<float> selection = early_stop_of(row.args, extent.least, extent.greatest, kth);
  const M sure = M::either(selection.fill_only, M::none(), lane.marks(Lane::reaching(selection.sure)));
  const M fill = lane.marks(Lane::reaching(selection.fill)).without(sure);
  const M early = sure | first_in_index_order<Group::kLanes>(fill, row.k() - Group::sum(sure.count()));
  return M::either(E::is_finite(extent.least) && E::is_finite(extent.greatest), early, exact);
}

}  // namespace rtopk::cuda
