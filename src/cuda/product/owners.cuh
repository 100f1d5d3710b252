// Which lanes of a matrix_gradient own which of the range's selectors. Some selectors are much more frequent than
// others. The time depends on the most frequent of the selectors that a warp walks together, and on the warp with the
// most elements. So a block samples some rows, and deals out the selectors by frequency. The sums do not depend on the
// owner.
#pragma once

#include "cuda/product/arguments.hpp"
#include "plan/tuning_product.hpp"

namespace rtopk::cuda {

inline constexpr int kSampledElements = 8192;

/// `kGroups` groups of lanes in each of `kWarps` warps. `counts`: scratch of kRangeCols words. In step s a warp walks
/// one selector for each group; this thread's group owns owned[s].
template <int kWarps, int kGroups, int kOwned>
__device__ void deal_out(const ProductArguments& args, int range, unsigned* counts, int (&owned)[kOwned]) {
  static_assert(kWarps * kGroups * kOwned == kRangeCols);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kRangeCols; i += 32 * kWarps) counts[i] = 0;
  __syncthreads();
  const auto sampled = static_cast<int>(min(args.rows, std::int64_t{max(kSampledElements / args.k, 1)}));
  const std::int64_t apart = sampled == 0 ? 0 : args.rows / sampled;
  for (int i = thread; i < sampled * args.k; i += 32 * kWarps) {
    const int column = args.selector_at(i / args.k * apart * args.k + i % args.k) - range;
    if (column >= 0 && column < kRangeCols) atomicAdd(counts + column, 1u);
  }
  __syncthreads();
  // The rank of each selector. Then counts[rank] holds the selector.
  int rank = 0;
  if (thread < kRangeCols) {
    const unsigned mine = counts[thread];
    for (int i = 0; i < kRangeCols; ++i) {
      const unsigned other = counts[i];
      rank += other > mine || (other == mine && i < thread) ? 1 : 0;
    }
  }
  __syncthreads();
  if (thread < kRangeCols) counts[rank] = static_cast<unsigned>(thread);
  __syncthreads();
  // Neighbouring ranks go to the groups of one warp. Warps are served first to last, then last to first.
  const int warp = thread / 32;
  const int group = thread % 32 / (32 / kGroups);
#pragma unroll
  for (int s = 0; s < kOwned; ++s) {
    const int turn = s % 2 == 0 ? warp : kWarps - 1 - warp;
    owned[s] = static_cast<int>(counts[(s * kWarps + turn) * kGroups + group]);
  }
  __syncthreads();
}

}  // namespace rtopk::cuda
