// cuda_block for rows that do not fit into the shared memory of one block, or are few: the blocks of a cluster share a
// row, and each keeps a part of it.
//
// All blocks draw the same sample of the row, and each lists the elements of its part that reach its threshold. Then
// they search for the kth value together, and each writes what of its part is selected.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block/arguments.hpp"
#include "cuda/select/block/extent.cuh"
#include "cuda/select/block/listed.cuh"
#include "cuda/select/block/marked_row.cuh"
#include "cuda/select/block/row.cuh"
#include "cuda/select/block/sample.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/general_row.cuh"
#include "cuda/select/key_range.cuh"
#include "cuda/select/part_search.cuh"

namespace rtopk::cuda {

/// What the threads of a block share.
template <class Key>
struct PartState {
  PartSearchMemory<Key> search;
  RangeCounts of_listed;  ///< Counts of this part.
  Key listed_low;         ///< The low end of what is listed.
  int equal;              ///< Elements equal to that, which are then not listed.
  CountsOfWarps of_warps;
  SampledRange<Key> from_sample;
  std::uint64_t copied;      ///< A barrier for the copy of the part.
  RowExtent<Key> extent;     ///< Of this part, if the search stops early;
  KeyRange<Key> early_ties;  ///< then this, too.
};

template <class T, int kChunks, BlockTask kTask>
class PartSelect {
 public:
  using Config = BlockConfig<T>;
  using Key = WideKey<T>;
  using State = PartState<Key>;
  using Counts = RangeCounts;
  static constexpr bool kEarly = kTask == BlockTask::stop_early;
  static constexpr bool kGeneral = is_general(kTask);
  static_assert(sizeof(State) <= Config::kPartStateBytes);

  __device__ PartSelect(const ArgumentsFor<kTask>& args, char* shared)
      : args_(args),
        row_number_(row_number(args)),
        state_(state_of(shared)),
        list_(reinterpret_cast<std::uint16_t*>(shared + args.list_at)),
        row_(part_of(args, shared)),
        marked_(args, row_, row_number_, state_.of_warps, list_),
        search_(state_.search, args) {}

  /// Starts to copy this block's part of a general row that is not empty, if one thread can do that: the first one
  /// calls this.
  static __device__ void start(const BlockArguments& args, char* shared) {
    if constexpr (BulkCopy::kByOneThread) {
      part_of(args, shared).fetch(BulkCopy(&state_of(shared).copied), args.spares_cache);
    }
  }

  __device__ void run() {
    const BulkCopy copy(&state_.copied);
    if (!kGeneral || !BulkCopy::kByOneThread) row_.fetch(copy, args_.spares_cache);
    row_.fetch_ends();
    search_.prepare();
    if (kEarly && threadIdx.x == 0) state_.extent = {kTop, 0};
    if (warp_number() == 0) {
      const T* row = static_cast<const T*>(args_.input) + row_number_ * args_.stride;
      const SampledRange<Key> range = RowSample<T, true>::draw(args_, row);
      if (lane_number() == 0) state_.from_sample = range;
    }
    marked_.find_own_elements();
    __syncthreads();
    copy.wait();
    if constexpr (kEarly) measure(row_, args_.smallest, state_.extent);  // before the blocks meet
    select();
    if (args_.passes != nullptr && block_in_cluster() == 0 && threadIdx.x == 0)
      args_.passes[row_number_] = marked_.passes();
    search_.wait_for_others();
  }

 private:
  using Search = PartSearch<Key, BlockArguments, SearchedBy::several>;
  using Share = typename Search::Share;
  using Warp = LaneGroup<32>;
  static constexpr Key kTop = core::max_key<T>;

  /// General rows have arguments of their own.
  [[nodiscard]] static __device__ unsigned row_number(const BlockArguments& args) {
    return kGeneral ? 0u : blockIdx.x / static_cast<unsigned>(args.parts);
  }
  [[nodiscard]] static __device__ State& state_of(char* shared) { return *reinterpret_cast<State*>(shared); }
  [[nodiscard]] static __device__ BlockRow<T> part_of(const BlockArguments& args, char* shared) {
    const int first = first_column(args);
    const int cols = min(args.part_cols, static_cast<int>(args.cols) - first);
    return BlockRow<T>(args, row_number(args), first, cols, shared + Config::kPartStateBytes);
  }

  /// Of a short row, the last parts are empty.
  [[nodiscard]] static __device__ int first_column(const BlockArguments& args) {
    return min(block_in_cluster() * args.part_cols, static_cast<int>(args.cols));
  }

  /// Lines of candidates in registers, while they are written: the search takes most of these.
  static constexpr int kLines = kGeneral || kEarly || sizeof(T) == 8 ? 3 : 6;
  using Keys = ListedKeys<T, typename MarkedRow<T, kChunks, kTask>::KeyOf, kLines>;

  /// This part's elements in a range, for the search.
  struct Candidates {
    const PartSelect& part;

    template <class F>
    __device__ void for_each(F&& f) const {
      if constexpr (kGeneral) return part.keys().for_each(f);  // the other way needs one register more than there is
      const auto key_of = part.marked_.key_of();
      const T* elements = part.row_.elements();
      const CandidatesOfWarp mine(part.candidates_);
#pragma unroll 2
      for (int i = mine.first + lane_number(); i < mine.last; i += 32) {
        f(key_of(elements[part.lists_ ? part.list_[i] : part.row_.begin() + i]));
      }
    }
    [[nodiscard]] __device__ Key equal_key() const { return part.state_.listed_low; }
    [[nodiscard]] __device__ int equal() const { return part.state_.equal; }
  };

  [[nodiscard]] __device__ Keys keys() const {
    return Keys(row_.elements(), lists_ ? list_ : nullptr, row_.begin(), candidates_, marked_.key_of());
  }

  __device__ void select() {
    KeyRange<Key> range = state_.from_sample;
    const Candidates candidates{*this};
#pragma unroll 1
    for (bool sampled = true;; sampled = false) {
      mark_and_list(range, sampled && args_.better_rank < 0);
      const Key usual_high = sampled ? state_.from_sample.usual_high : kTop;
      if (search_.narrow(candidates, range, usual_high, state_.of_listed)) break;
      // The sample misled: the kth value is above the range or below it.
      const bool is_above = search_.of_first().above >= args_.k;
      range = is_above ? KeyRange<Key>{static_cast<Key>(range.high + 1), kTop} : KeyRange<Key>{0, range.low - 1};
      search_.meet();  // all have read the counts
    }
    const bool many_equal = range.low == range.high;
    // Those above are not among the listed ones.
    Share share;
    if (!many_equal) share = search_.share_of_few(candidates, range, lists_ ? state_.of_listed.above : 0);
    const Key kth = many_equal ? range.low : search_.kth();
    if constexpr (kGeneral) args_.template found<T>(static_cast<core::KeyOf<T>>(kth));
    if constexpr (kEarly) {
      const RowExtent<Key> row = extent();
      if (row.template is_finite<T>(args_.smallest)) {
        if (warp_number() == 0) state_.early_ties = early_ties<T>(args_, row, kth);
        __syncthreads();
        return write_marked_by_all(state_.early_ties);
      }
    }
    if (many_equal) return write_marked_by_all(range);
    search_.leave();
    const bool writes_rows = args_.form == Form::dense || args_.form == Form::mask;
    const bool listed_all = lists_ && Keys::can_keep(candidates_) && state_.of_listed.above == 0 &&
                            (candidates.equal() == 0 || kth > candidates.equal_key());
    if (listed_all && !writes_rows) return write_listed(share);
    marked_.find_own_elements();  // again: they would have taken registers from the candidates
    marked_.mark({kth, kth});
    write_marked(share);
  }

  /// Marks the elements of this part that are in the range, and lists them if there is room for them.
  __device__ void mark_and_list(const KeyRange<Key>& range, bool all_above) {
    const Counts own = all_above ? marked_.mark_reaching(range.low) : marked_.mark(range);
    int between = own.reach - own.above;
    int equal = 0;
    if (between > args_.list_capacity && range.low < range.high) {
      // Perhaps many are equal to the low end: these need not be listed.
      const Counts others = marked_.mark({static_cast<Key>(range.low + 1), range.high});
      if (others.reach - others.above <= args_.list_capacity) {
        between = others.reach - others.above;
        equal = own.reach - others.reach;
      }
    }
    lists_ = between <= args_.list_capacity;
    if (lists_) marked_.list_between(list_);
    candidates_ = lists_ ? between : row_.end() - row_.begin();
    if (threadIdx.x == 0) {
      state_.of_listed = own;
      state_.listed_low = range.low;
      state_.equal = equal;
    }
    __syncthreads();
  }

  /// Of the whole row.
  [[nodiscard]] __device__ RowExtent<Key> extent() const {
    const bool reads = lane_number() < args_.parts;
    const RowExtent<Key> there = reads ? *of_block(&state_.extent, lane_number()) : RowExtent<Key>{kTop, 0};
    return {Warp::least(there.least), Warp::greatest(there.greatest)};
  }

  /// Marks by a range, as all parts do, and writes this part's share.
  __device__ void write_marked_by_all(KeyRange<Key> ties) {
    marked_.find_own_elements();
    const Share share = search_.share_of_many(marked_.mark(ties));
    search_.leave();
    write_marked(share);
  }

  __device__ void write_marked(const Share& share) {
    marked_.write(share, share.number, [](const std::uint16_t*) {});
  }

  /// Writes the listed elements above the kth value, and the first of those equal to it.
  __device__ void write_listed(const Share& share) {
    const Keys keys = this->keys();
    const KeyRange<Key> ties = {search_.kth(), search_.kth()};
    const Counts own = keys.counts(ties);
    const auto numbers = keys.numbers();
    const auto sums = marked_.sums_of_warps(marked_.packed(own.reach, own.above));  // all have their numbers then
    keys.list_selected(list_, numbers, ties, marked_.unpacked(sums.before), share.quota, share.all);
    __syncthreads();
    marked_.write_listed(share.first_result, share.number, [](const std::uint16_t*) {});
  }

  const ArgumentsFor<kTask>& args_;
  unsigned row_number_;
  State& state_;
  std::uint16_t* list_;  ///< Numbers of elements.
  BlockRow<T> row_;
  MarkedRow<T, kChunks, kTask> marked_;
  Search search_;
  bool lists_ = false;
  int candidates_ = 0;  ///< Listed elements, or all.
};

template <class T, int kChunks, BlockTask kTask>
__global__ void __launch_bounds__(BlockConfig<T>::max_part_threads(kChunks), BlockConfig<T>::min_part_blocks(kChunks))
    block_parts_kernel(const __grid_constant__ BlockArguments args) {
  extern __shared__ __align__(256) char shared[];  // chunks are aligned
  PartSelect<T, kChunks, kTask>(args, shared).run();
}

template <class T, int kChunks, BlockTask kTask>
__global__ void __launch_bounds__((BlockConfig<T, true>::max_part_threads(kChunks)),
                                  (BlockConfig<T, true>::min_part_blocks(kChunks)))
    general_block_parts_kernel(const __grid_constant__ BlockArguments args, const __grid_constant__ RowRules rules) {
  extern __shared__ __align__(256) char shared[];  // chunks are aligned
  __shared__ GeneralRow<BlockArguments> row;
  const std::int64_t number = blockIdx.x / static_cast<unsigned>(args.parts);
  using Select = PartSelect<T, kChunks, kTask>;
  row.template set<T, true>(args, rules, number, [&](BlockArguments& own) {
    if (own.cols != args.cols) {
      own.part_cols = static_cast<std::int32_t>(BlockConfig<T>::general_part_cols(own.cols, own.parts));
    }
    if (own.k > 0) Select::start(own, shared);
    if (own.cols != args.cols || own.k != args.k) sample_again<T>(own, 0);
  });
  if (row.k > 0) Select(row, shared).run();
  finish_row_of_cluster<T>(args, rules, number, row, args.parts);
}

}  // namespace rtopk::cuda
