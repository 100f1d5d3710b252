// The search for the kth value of a row whose candidates are divided among the blocks of a cluster.
//
// The blocks tell each other how many candidates they have, in bins of keys, so that all know the bin that holds the
// kth value of the row. Then they show each other their few candidates in that bin. From these, every block finds the
// kth value, and what of its part is selected. So blocks wait for each other twice, unless many elements are equal.
//
// A block alone searches in the same way.
#pragma once

#include <cstdint>

#include "cuda/runtime/cluster.cuh"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/bins.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/key_range.cuh"
#include "plan/select/tuning_parts.hpp"

namespace rtopk::cuda {

/// What the threads of a block share. The other blocks of the cluster read `shown`.
template <class Key>
struct PartSearchMemory {
  struct Shown {
    std::uint32_t bins[2][kBins];  ///< Numbers of elements, in alternation.
    RangeCounts of_first;          ///< Counts of the first range;
    RangeCounts of_kth;            ///< of the kth value, if many are equal to it.
    Key small[kMaxShown];          ///< Candidates in the last bin.
    int number_of_small;
    int above_small;  ///< Elements above that bin.
  } shown;

  alignas(16) std::uint32_t sums[kBins];  ///< Of all blocks' bins.
  RangeCounts of_first;                   ///< Counts of the whole row.
  FoundBin found;
  Key small[kMaxShown];  ///< Of all blocks, in their order.
  std::uint8_t block_of[kMaxShown];
  Key kth;
};

/// How many blocks search together.
enum class SearchedBy { one, several, one_or_several };

/// Arguments of a block that searches alone, even in a cluster of several.
struct SearchAlone {
  int k;
  int parts = 1;
};

/// `Candidates` has `for_each(f)`, which calls f with the keys of this thread's candidates, also with some outside of
/// the range. And there are `equal()` elements with the key `equal_key()`, which for_each leaves out. `Arguments` has
/// `k` and `parts`, the number of blocks.
template <class Key, class Arguments, SearchedBy kBlocks>
class PartSearch {
 public:
  using Memory = PartSearchMemory<Key>;
  using Counts = RangeCounts;

  /// What of this part is selected, and how many elements that is.
  struct Share : SelectedShare {
    int number;
    bool all;  ///< All that reach the kth value.
  };

  __device__ PartSearch(Memory& memory, const Arguments& args) : memory_(memory), args_(args) {}

  /// Comes first, before a barrier of the block.
  __device__ void prepare() {
    clear(0);
    if (thread() == 0) memory_.shown.number_of_small = memory_.shown.above_small = 0;
  }

  /// A barrier of all blocks that share the row.
  __device__ void meet() const {
    if (is_shared()) {
      cluster_sync();
    } else {
      __syncthreads();
    }
  }
  /// This thread reads no other block's memory any more. Others may still read this block's: it must wait before it
  /// ends.
  __device__ void leave() const {
    if (is_shared()) cluster_arrive();
  }
  __device__ void wait_for_others() const {
    if (is_shared()) cluster_wait();
  }

  /// The row's elements that reach the first range, and those above it.
  [[nodiscard]] __device__ Counts of_first() const { return memory_.of_first; }
  [[nodiscard]] __device__ Key kth() const { return memory_.kth; }

  /// Narrows a range to one key, or until it has few elements. Few are above `usual_high`. `here`: counts of this part.
  /// False if the range does not hold the kth value: then the counts of the row tell which way to go.
  template <class Candidates>
  __device__ bool narrow(const Candidates& candidates, KeyRange<Key>& range, Key usual_high, Counts here) {
    bool is_sure = false;
    if (thread() == 0) memory_.shown.of_first = here;
    // The first bin has all that is above `cut`. The others divide the rest evenly.
    Key cut = max(min(usual_high, range.high), range.low);
#pragma unroll 1
    while (true) {
      int shift = max(bits_of(cut - range.low) - kLogBins, 0);
      if ((cut - range.low) >> shift >= kBins - 1) ++shift;
      const auto add = [&](Key key, int number) {
        if (key < range.low || key > range.high) return;
        const int bin = key > cut ? 0 : 1 + static_cast<int>((cut - key) >> shift);
        atomicAdd(memory_.shown.bins[turn_] + bin, static_cast<std::uint32_t>(number));
      };
      candidates.for_each([&](Key key) { add(key, 1); });
      if (thread() == 0) add(candidates.equal_key(), candidates.equal());
      meet();
      add_bins();
      if (!is_sure) {
        is_sure = true;
        const Counts all = memory_.of_first;
        if (all.above >= k() || all.reach < k()) return false;
        above_ = all.above;
      }
      if (warp_number() == 0) find_bin_of(k() - above_);
      __syncthreads();
      if (memory_.found.bin == 0) {
        range.low = cut + 1;
      } else {
        const Key span = (Key{1} << shift) - 1;
        range.high = cut - (static_cast<Key>(memory_.found.bin - 1) << shift);
        if (range.high - range.low > span) range.low = range.high - span;
      }
      above_ += memory_.found.before;
      cut = range.high;
      if (range.low == range.high || memory_.found.inside <= kMaxShown) return true;
    }
  }

  /// Finds the kth value in a range of few elements, and what of this part is selected. `sure`: elements of this part
  /// above the range that are no candidates; by thread 0.
  template <class Candidates>
  __device__ Share share_of_few(const Candidates& candidates, const KeyRange<Key>& range, int sure) {
    show(candidates, range, sure);
    find_kth();
    return share_of_shown();
  }

  /// What of this part is selected if many elements are equal to the kth value. `here`: counts of it in this part.
  __device__ Share share_of_many(Counts here) {
    if (thread() == 0) memory_.shown.of_kth = here;
    meet();
    const bool reads = lane_number() < parts();
    const Counts there = reads ? *of(&memory_.shown.of_kth, lane_number()) : Counts{0, 0};
    const bool is_earlier = lane_number() < own_block();
    const Counts before = {Warp::sum(is_earlier ? there.reach : 0), Warp::sum(is_earlier ? there.above : 0)};
    return share_of(before, here, {Warp::sum(there.reach), Warp::sum(there.above)});
  }

 private:
  using Warp = LaneGroup<32>;

  template <class X>
  [[nodiscard]] static __device__ const X* of(const X* mine, int block) {
    if constexpr (kBlocks == SearchedBy::one) {
      return mine;
    } else {
      return of_block(mine, block);
    }
  }

  [[nodiscard]] __device__ bool is_shared() const {
    return kBlocks == SearchedBy::several || (kBlocks == SearchedBy::one_or_several && args_.parts > 1);
  }
  /// The number of this block among those that search.
  [[nodiscard]] __device__ int own_block() const { return is_shared() ? block_in_cluster() : 0; }
  [[nodiscard]] __device__ int parts() const { return args_.parts; }
  [[nodiscard]] __device__ int k() const { return static_cast<int>(args_.k); }
  [[nodiscard]] static __device__ int threads() { return static_cast<int>(blockDim.x); }
  [[nodiscard]] static __device__ int thread() { return static_cast<int>(threadIdx.x); }

  __device__ void clear(int turn) {
    for (int i = thread(); i < kBins; i += threads()) memory_.shown.bins[turn][i] = 0;
  }

  /// Adds up all blocks' bins, and their counts of the first range. Clears the other set, which no block reads any
  /// more.
  __device__ void add_bins() {
    for (int i = thread(); i < kBins; i += threads()) {
      std::uint32_t sum = 0;
#pragma unroll
      for (int block = 0; block < kMaxParts; ++block) {
        if (block < parts()) sum += of(memory_.shown.bins[turn_], block)[i];
      }
      memory_.sums[i] = sum;
    }
    if (warp_number() == warps_of_block() - 1) {
      const bool reads = lane_number() < parts();
      const Counts there = reads ? *of(&memory_.shown.of_first, lane_number()) : Counts{};
      const Counts all = {Warp::sum(there.reach), Warp::sum(there.above)};
      if (lane_number() == 0) memory_.of_first = all;
    }
    turn_ ^= 1;
    clear(turn_);
    __syncthreads();
  }

  __device__ void find_bin_of(int rank) {
    const auto* mine = reinterpret_cast<const uint4*>(memory_.sums + lane_number() * kBinsOfLane);
    const uint4 a = mine[0];
    const uint4 b = mine[1];
    find_bin({a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, rank, memory_.found);
  }

  /// Shows the other blocks this part's elements in the range.
  template <class Candidates>
  __device__ void show(const Candidates& candidates, const KeyRange<Key>& range, int sure) {
    typename Memory::Shown& shown = memory_.shown;
    int above = 0;
    candidates.for_each([&](Key key) {
      above += key > range.high ? 1 : 0;
      if (key < range.low || key > range.high) return;
      shown.small[atomicAdd(&shown.number_of_small, 1)] = key;
    });
    const bool shows_equal = candidates.equal_key() >= range.low && candidates.equal_key() <= range.high;
    for (int i = thread(); i < (shows_equal ? candidates.equal() : 0); i += threads()) {
      shown.small[atomicAdd(&shown.number_of_small, 1)] = candidates.equal_key();
    }
    above = Warp::sum(above);
    if (lane_number() == 0 && above > 0) atomicAdd(&shown.above_small, above);
    if (thread() == 0) atomicAdd(&shown.above_small, sure);
    meet();
  }

  /// Gathers what the blocks show, and finds the kth value among it.
  __device__ void find_kth() {
    const bool reads = lane_number() < parts();
    const int there = reads ? *of(&memory_.shown.number_of_small, lane_number()) : 0;
    above_there_ = reads ? *of(&memory_.shown.above_small, lane_number()) : 0;
    const int up_to_there = Warp::inclusive_sum(there);
    number_of_small_ = Warp::from_lane(up_to_there, 31);
    for (int block = warp_number(); block < parts(); block += warps_of_block()) {
      const int number = Warp::from_lane(there, block);
      const int first = Warp::from_lane(up_to_there, block) - number;
      const Key* from = of(memory_.shown.small, block);
      for (int i = lane_number(); i < number; i += 32) {
        memory_.small[first + i] = from[i];
        memory_.block_of[first + i] = static_cast<std::uint8_t>(block);
      }
    }
    __syncthreads();
    for (int mine = thread(); mine < number_of_small_; mine += threads()) {
      const Key key = memory_.small[mine];
      int better = 0;
#pragma unroll 4
      for (int i = 0; i < number_of_small_; ++i) {
        const Key other = memory_.small[i];
        better += other > key || (other == key && i < mine) ? 1 : 0;
      }
      if (better == k() - above_ - 1) memory_.kth = key;
    }
    __syncthreads();
  }

  __device__ Share share_of_shown() const {
    const Key kth = memory_.kth;
    const int own = own_block();
    Counts before{0, 0};
    Counts here{0, 0};
    Counts all{above_, above_};
    for (int line = 0; line < number_of_small_; line += 32) {
      const int i = line + lane_number();
      const bool exists = i < number_of_small_;
      const Key key = exists ? memory_.small[i] : Key{0};
      const int block = exists ? memory_.block_of[i] : kMaxParts;
      const unsigned reach = __ballot_sync(kFullWarp, exists && key >= kth);
      const unsigned above = __ballot_sync(kFullWarp, exists && key > kth);
      const unsigned of_earlier = __ballot_sync(kFullWarp, block < own);
      const unsigned of_this = __ballot_sync(kFullWarp, block == own);
      all = {all.reach + __popc(reach), all.above + __popc(above)};
      before = {before.reach + __popc(reach & of_earlier), before.above + __popc(above & of_earlier)};
      here = {here.reach + __popc(reach & of_this), here.above + __popc(above & of_this)};
    }
    const int sure_before = Warp::sum(lane_number() < own ? above_there_ : 0);
    const int sure_here = Warp::from_lane(above_there_, own);
    return share_of({before.reach + sure_before, before.above + sure_before},
                    {here.reach + sure_here, here.above + sure_here}, all);
  }

  /// From counts of the kth value: of the parts before this one, of this one, of the row.
  __device__ Share share_of(Counts before, Counts here, Counts all) const {
    const int quota = k() - all.above;
    const int ties_before = min(before.reach - before.above, quota);
    const int ties = here.reach - here.above;
    const int ties_here = min(ties, quota - ties_before);
    return {{ties_here, before.above + ties_before}, here.above + ties_here, ties_here == ties};
  }

  Memory& memory_;
  const Arguments& args_;
  int turn_ = 0;   ///< The set of bins in use.
  int above_ = 0;  ///< Elements of the row above the range.
  int number_of_small_ = 0;
  int above_there_ = 0;  ///< above_small of the block that this lane stands for.
};

}  // namespace rtopk::cuda
