// A list of candidates, by their numbers in a row that is in shared memory.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block/marked_row.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/key_range.cuh"

namespace rtopk::cuda {

/// A warp's candidates: neighbours, so that results are in order.
struct WarpRange {
  int first;
  int last;

  static __device__ WarpRange of(int listed) {
    const int each = (listed + static_cast<int>(blockDim.x) - 1) / static_cast<int>(blockDim.x) * 32;
    return {warp_number() * each, min(listed, warp_number() * each + each)};
  }
};

/// Calls `write(place, number, element)` for this warp's candidates above a range, and for the first of those in it, in
/// order. `before`: counts of the warps before. `all`: every candidate that reaches the range is selected.
template <class T, int kChunks, BlockTask kTask, class Write>
__device__ void for_selected(const MarkedRow<T, kChunks, kTask>& marked, const std::uint16_t* list, WarpRange range,
                             KeyRange<WideKey<T>> ties, RangeCounts before, SelectedShare share, bool all,
                             Write&& write) {
  const unsigned earlier = (1u << lane_number()) - 1u;
  const typename MarkedRow<T, kChunks, kTask>::KeyOf key_of = marked.key_of();
  // `chosen` decides, for all lanes, which of them are selected.
  const auto go = [&](int place, auto&& chosen_of) {
#pragma unroll 1
    for (int line = range.first; line < range.last; line += 32) {
      const int i = line + lane_number();
      const int number = list[min(i, range.last - 1)];
      const T raw = marked.row().elements()[number];
      const unsigned chosen = chosen_of(key_of(raw), i < range.last);
      if ((chosen >> lane_number() & 1u) != 0) write(place + __popc(chosen & earlier), number, raw);
      place += __popc(chosen);
    }
  };
  const int ties_before = before.reach - before.above;
  if (all) {
    return go(share.first_result + before.reach,
              [&](WideKey<T> key, bool exists) { return __ballot_sync(kFullWarp, exists && key >= ties.low); });
  }
  int places = share.quota - ties_before;
  go(share.first_result + before.above + min(ties_before, share.quota), [&](WideKey<T> key, bool exists) {
    const bool is_tie = key >= ties.low && key <= ties.high;
    const unsigned tied = __ballot_sync(kFullWarp, exists && is_tie);
    const bool taken = is_tie && __popc(tied & earlier) < places;
    places -= __popc(tied);
    return __ballot_sync(kFullWarp, exists && (key > ties.high || taken));
  });
}

}  // namespace rtopk::cuda
