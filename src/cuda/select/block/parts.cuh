// cuda_block for rows that do not fit into the shared memory of one block, or are few: the blocks of a cluster share a
// row, and each keeps a part of it.
//
// All blocks draw the same sample of the row, and each lists the elements of its part that reach its threshold. They
// tell each other how many there are, in bins of keys, so that all know the bin that holds the kth value of the row.
// Then they show each other their few elements in that bin. From these, every block finds the kth value, and what of
// its part is selected. So blocks wait for each other twice, unless many elements are equal or the sample misled.
#pragma once

#include <cstdint>

#include "cuda/runtime/cluster.cuh"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block/arguments.hpp"
#include "cuda/select/block/bins.cuh"
#include "cuda/select/block/listed.cuh"
#include "cuda/select/block/marked_row.cuh"
#include "cuda/select/block/row.cuh"
#include "cuda/select/block/sample.cuh"
#include "cuda/select/block_sums.cuh"

namespace rtopk::cuda {

/// What the threads of a block share. The other blocks of the cluster read `shown`.
template <class Key>
struct PartState {
  struct Shown {
    std::uint32_t bins[2][kBlockBins];  ///< Numbers of elements, in alternation.
    RangeCounts of_sample;              ///< Counts of the sample's range;
    RangeCounts of_kth;                 ///< of the kth value, if many are equal to it.
    Key small[kPartMaxSmall];           ///< Elements in the last bin.
    int number_of_small;
    int above_small;  ///< Elements above that bin.
  } shown;

  alignas(16) std::uint32_t sums[kBlockBins];  ///< Of all blocks' bins.
  RangeCounts of_sample;                       ///< Counts of the whole row.
  RangeCounts of_listed;                       ///< Counts of this part.
  FoundBin found;
  Key small[kPartMaxSmall];  ///< Of all blocks, in their order.
  std::uint8_t block_of[kPartMaxSmall];
  Key kth;
  CountsOfWarps of_warps;
  SampledRange<Key> from_sample;
  std::uint64_t copied;  ///< A barrier for the copy of the part.
};

template <class T, int kChunks>
class PartSelect {
 public:
  using Config = BlockConfig<T>;
  using Key = WideKey<T>;
  using State = PartState<Key>;
  using Counts = RangeCounts;
  static_assert(sizeof(State) <= Config::kPartStateBytes);

  __device__ PartSelect(const BlockArguments& args, char* shared)
      : args_(args),
        block_(static_cast<int>(blockIdx.x) & (args.parts - 1)),
        row_number_(blockIdx.x / static_cast<unsigned>(args.parts)),
        state_(*reinterpret_cast<State*>(shared)),
        list_(reinterpret_cast<std::uint16_t*>(shared + args.list_at)),
        row_(args, row_number_, block_ * args.part_cols,
             min(args.part_cols, static_cast<int>(args.cols) - block_ * args.part_cols),
             shared + Config::kPartStateBytes),
        marked_(args, row_, row_number_, state_.of_warps, list_) {}

  __device__ void run() {
    const BulkCopy copy(&state_.copied);
    row_.fetch(copy, args_.spares_cache);
    clear(0);
    if (threadIdx.x == 0) state_.shown.number_of_small = state_.shown.above_small = 0;
    if (warp_number() == 0) {
      const T* row = static_cast<const T*>(args_.input) + row_number_ * args_.stride;
      const SampledRange<Key> range = RangeFromSample<T>::draw(args_, row);
      if (lane_number() == 0) state_.from_sample = range;
    }
    marked_.find_own_elements();
    __syncthreads();
    copy.wait();
    select();
    if (args_.passes != nullptr && block_ == 0 && threadIdx.x == 0) args_.passes[row_number_] = marked_.passes();
    cluster_wait();
  }

 private:
  using Warp = LaneGroup<32>;
  static constexpr Key kTop = core::max_key<T>;

  [[nodiscard]] static __device__ int threads() { return static_cast<int>(blockDim.x); }
  [[nodiscard]] static __device__ int thread() { return static_cast<int>(threadIdx.x); }
  [[nodiscard]] __device__ int k() const { return static_cast<int>(args_.k); }

  __device__ void select() {
    const SampledRange<Key> sampled = state_.from_sample;
    range_ = sampled;
    mark_and_list(args_.better_rank < 0);
    find_range(sampled.usual_high);
    if (range_.low == range_.high) {
      const Share share = share_of_ties();
      cluster_arrive();  // reads no other block's memory any more
      return write_marked(share);
    }
    show_small();
    find_kth();
    const Share share = share_of_small();
    cluster_arrive();
    const bool writes_rows = args_.form == Form::dense || args_.form == Form::mask;
    const bool listed_all = lists_ && state_.of_listed.above == 0 && (equal_ == 0 || state_.kth > listed_low_);
    if (listed_all && !writes_rows) return write_listed(share);
    marked_.mark({state_.kth, state_.kth});
    write_marked(share);
  }

  /// Marks the elements of this part that are in the range, and lists them if there is room for them.
  __device__ void mark_and_list(bool all_above) {
    const Counts own = all_above ? marked_.mark_reaching(range_.low) : marked_.mark(range_);
    int between = own.reach - own.above;
    equal_ = 0;
    if (between > args_.list_capacity && range_.low < range_.high) {
      // Perhaps many are equal to the low end: these need not be listed.
      const Counts others = marked_.mark({static_cast<Key>(range_.low + 1), range_.high});
      if (others.reach - others.above <= args_.list_capacity) {
        between = others.reach - others.above;
        equal_ = own.reach - others.reach;
      }
    }
    lists_ = between <= args_.list_capacity;
    if (lists_) marked_.list_between(list_);
    mine_ = WarpRange::of(lists_ ? between : row_.end() - row_.begin());
    listed_low_ = range_.low;
    if (thread() == 0) state_.of_listed = own;
    __syncthreads();
  }

  /// Calls f with the keys of this thread's elements, at least of those in the range; not of `equal_`.
  template <class F>
  __device__ void for_each(F&& f) const {
#pragma unroll 2
    for (int i = mine_.first + lane_number(); i < mine_.last; i += 32) {
      f(marked_.key_of(lists_ ? list_[i] : row_.begin() + i));
    }
  }

  // ------------------------------------------------------------------------------------------------------------------
  // The bin that holds the kth value.

  /// Narrows the range to one key, or until it has few elements. `usual_high`: few are above it.
  __device__ void find_range(Key usual_high) {
    // The first bin has all that is above `cut`. The others divide the rest evenly.
    Key cut = max(min(usual_high, range_.high), range_.low);
    bool is_sure = false;  // the range holds the kth value
    above_ = 0;
#pragma unroll 1
    for (int turn = 0;; turn ^= 1) {
      int shift = max(bits_of(cut - range_.low) - kBlockLogBins, 0);
      if ((cut - range_.low) >> shift >= kBlockBins - 1) ++shift;
      const auto add = [&](Key key, int number) {
        if (key < range_.low || key > range_.high) return;
        const int bin = key > cut ? 0 : 1 + static_cast<int>((cut - key) >> shift);
        atomicAdd(state_.shown.bins[turn] + bin, static_cast<std::uint32_t>(number));
      };
      for_each([&](Key key) { add(key, 1); });
      if (thread() == 0) {
        if (equal_ > 0) add(listed_low_, equal_);
        if (!is_sure) state_.shown.of_sample = state_.of_listed;
      }
      cluster_sync();
      add_bins(turn);
      if (!is_sure) {
        is_sure = true;
        const Counts all = state_.of_sample;
        if (all.above >= k() || all.reach < k()) {
          const bool is_above = all.above >= k();
          range_ = is_above ? KeyRange<Key>{static_cast<Key>(range_.high + 1), kTop} : KeyRange<Key>{0, range_.low - 1};
          above_ = is_above ? 0 : all.reach;
          cut = range_.high;
          mark_and_list(false);
          continue;
        }
        above_ = all.above;
      }
      if (warp_number() == 0) find_bin_of(k() - above_);
      __syncthreads();
      if (state_.found.bin == 0) {
        range_.low = cut + 1;
      } else {
        const Key span = (Key{1} << shift) - 1;
        range_.high = cut - (static_cast<Key>(state_.found.bin - 1) << shift);
        if (range_.high - range_.low > span) range_.low = range_.high - span;
      }
      above_ += state_.found.before;
      cut = range_.high;
      if (range_.low == range_.high || state_.found.inside <= kPartMaxSmall) return;
    }
  }

  __device__ void clear(int turn) {
    for (int i = thread(); i < kBlockBins; i += threads()) state_.shown.bins[turn][i] = 0;
  }

  /// Adds up all blocks' bins, and their counts of the sample's range. Clears the other set, which no block reads any
  /// more.
  __device__ void add_bins(int turn) {
    for (int i = thread(); i < kBlockBins; i += threads()) {
      std::uint32_t sum = 0;
#pragma unroll
      for (int block = 0; block < kBlockMaxParts; ++block) {
        if (block < args_.parts) sum += of_block(state_.shown.bins[turn], block)[i];
      }
      state_.sums[i] = sum;
    }
    if (warp_number() == warps_of_block() - 1) {
      const bool reads = lane_number() < args_.parts;
      const Counts there = reads ? *of_block(&state_.shown.of_sample, lane_number()) : Counts{};
      const Counts all = {Warp::sum(there.reach), Warp::sum(there.above)};
      if (lane_number() == 0) state_.of_sample = all;
    }
    clear(turn ^ 1);
    __syncthreads();
  }

  __device__ void find_bin_of(int k) {
    const auto* mine = reinterpret_cast<const uint4*>(state_.sums + lane_number() * kBinsOfLane);
    const uint4 a = mine[0];
    const uint4 b = mine[1];
    find_bin({a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, k, state_.found);
  }

  // ------------------------------------------------------------------------------------------------------------------
  // The kth value, and what of this part is selected.

  /// What of this part is selected, and how many elements that is.
  struct Share : SelectedShare {
    int number;
    bool all;  ///< All that reach the kth value.
  };

  /// Shows the other blocks this part's elements in the range.
  __device__ void show_small() {
    int above = 0;
    for_each([&](Key key) {
      above += key > range_.high ? 1 : 0;
      if (key < range_.low || key > range_.high) return;
      state_.shown.small[atomicAdd(&state_.shown.number_of_small, 1)] = key;
    });
    if (listed_low_ == range_.low) {
      for (int i = thread(); i < equal_; i += threads()) {
        state_.shown.small[atomicAdd(&state_.shown.number_of_small, 1)] = range_.low;
      }
    }
    above = Warp::sum(above);
    if (lane_number() == 0 && above > 0) atomicAdd(&state_.shown.above_small, above);
    // Not among the listed ones.
    if (lists_ && thread() == 0) atomicAdd(&state_.shown.above_small, state_.of_listed.above);
    cluster_sync();
  }

  /// Gathers what the blocks show, and finds the kth value among it.
  __device__ void find_kth() {
    const bool reads = lane_number() < args_.parts;
    const int there = reads ? *of_block(&state_.shown.number_of_small, lane_number()) : 0;
    above_there_ = reads ? *of_block(&state_.shown.above_small, lane_number()) : 0;
    const int up_to_there = Warp::inclusive_sum(there);
    number_of_small_ = Warp::from_lane(up_to_there, 31);
    for (int block = warp_number(); block < args_.parts; block += warps_of_block()) {
      const int number = Warp::from_lane(there, block);
      const int first = Warp::from_lane(up_to_there, block) - number;
      const Key* from = of_block(state_.shown.small, block);
      for (int i = lane_number(); i < number; i += 32) {
        state_.small[first + i] = from[i];
        state_.block_of[first + i] = static_cast<std::uint8_t>(block);
      }
    }
    __syncthreads();
    for (int mine = thread(); mine < number_of_small_; mine += threads()) {
      const Key key = state_.small[mine];
      int better = 0;
#pragma unroll 4
      for (int i = 0; i < number_of_small_; ++i) {
        const Key other = state_.small[i];
        better += other > key || (other == key && i < mine) ? 1 : 0;
      }
      if (better == k() - above_ - 1) state_.kth = key;
    }
    __syncthreads();
  }

  __device__ Share share_of_small() const {
    const Key kth = state_.kth;
    Counts before{0, 0};
    Counts here{0, 0};
    Counts all{above_, above_};
    for (int line = 0; line < number_of_small_; line += 32) {
      const int i = line + lane_number();
      const bool exists = i < number_of_small_;
      const Key key = exists ? state_.small[i] : Key{0};
      const int block = exists ? state_.block_of[i] : kBlockMaxParts;
      const unsigned reach = __ballot_sync(kFullWarp, exists && key >= kth);
      const unsigned above = __ballot_sync(kFullWarp, exists && key > kth);
      const unsigned of_earlier = __ballot_sync(kFullWarp, block < block_);
      const unsigned of_this = __ballot_sync(kFullWarp, block == block_);
      all = {all.reach + __popc(reach), all.above + __popc(above)};
      before = {before.reach + __popc(reach & of_earlier), before.above + __popc(above & of_earlier)};
      here = {here.reach + __popc(reach & of_this), here.above + __popc(above & of_this)};
    }
    const int sure_before = Warp::sum(lane_number() < block_ ? above_there_ : 0);
    const int sure_here = Warp::from_lane(above_there_, block_);
    return share_of({before.reach + sure_before, before.above + sure_before},
                    {here.reach + sure_here, here.above + sure_here}, all);
  }

  /// Many elements are equal to the kth value. Marks them.
  __device__ Share share_of_ties() {
    const Counts here = marked_.mark(range_);
    if (thread() == 0) state_.shown.of_kth = here;
    cluster_sync();
    const bool reads = lane_number() < args_.parts;
    const Counts there = reads ? *of_block(&state_.shown.of_kth, lane_number()) : Counts{0, 0};
    const bool is_earlier = lane_number() < block_;
    const Counts before = {Warp::sum(is_earlier ? there.reach : 0), Warp::sum(is_earlier ? there.above : 0)};
    return share_of(before, here, {Warp::sum(there.reach), Warp::sum(there.above)});
  }

  /// From counts of the kth value: of the parts before this one, of this one, of the row.
  __device__ Share share_of(Counts before, Counts here, Counts all) const {
    const int quota = k() - all.above;
    const int ties_before = min(before.reach - before.above, quota);
    const int ties = here.reach - here.above;
    const int ties_here = min(ties, quota - ties_before);
    return {{ties_here, before.above + ties_before}, here.above + ties_here, ties_here == ties};
  }

  // ------------------------------------------------------------------------------------------------------------------
  // Results.

  __device__ void write_marked(const Share& share) {
    marked_.write(share, share.number, [](const std::uint16_t*) {});
  }

  /// Writes the listed elements above the kth value, and the first of those equal to it.
  __device__ void write_listed(const Share& share) {
    const Key kth = state_.kth;
    int reach = 0;
    int above = 0;
    for_each([&](Key key) {
      reach += key >= kth ? 1 : 0;
      above += key > kth ? 1 : 0;
    });
    const auto sums = marked_.sums_of_warps(__reduce_add_sync(kFullWarp, marked_.packed(reach, above)));
    T* values = args_.values == nullptr ? nullptr : static_cast<T*>(args_.values) + row_number_ * args_.k;
    with_indices(args_, row_number_, [&](auto* indices) {
      using Index = std::remove_reference_t<decltype(*indices)>;
      for_selected(marked_, list_, mine_, kth, marked_.unpacked(sums.before), share, share.all, args_.smallest,
                   [&](int place, int number, T raw) {
                     if (values != nullptr) values[place] = raw;
                     if (args_.indices != nullptr) indices[place] = static_cast<Index>(row_.column(number));
                   });
    });
  }

  const BlockArguments& args_;
  int block_;  ///< In the cluster.
  unsigned row_number_;
  State& state_;
  std::uint16_t* list_;  ///< Numbers of elements.
  BlockRow<T> row_;
  MarkedRow<T, kChunks> marked_;

  KeyRange<Key> range_;  ///< Holds the kth value;
  int above_ = 0;        ///< elements of the row above it.
  bool lists_ = false;
  Key listed_low_;  ///< The low end of what is listed.
  int equal_ = 0;   ///< Elements equal to that, which are then not listed.
  WarpRange mine_;  ///< This warp's elements: listed ones, or all.
  int number_of_small_ = 0;
  int above_there_ = 0;  ///< above_small of the block that this lane stands for.
};

template <class T, int kChunks>
__global__ void __launch_bounds__(BlockConfig<T>::max_part_threads(kChunks), BlockConfig<T>::min_part_blocks(kChunks))
    block_parts_kernel(const __grid_constant__ BlockArguments args) {
  extern __shared__ __align__(16) char shared[];
  PartSelect<T, kChunks>(args, shared).run();
}

}  // namespace rtopk::cuda
