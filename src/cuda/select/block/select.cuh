// cuda_block: a block for each row, which stays in shared memory.
//
// A sample of the row gives a threshold that a little more than k elements reach. One pass over the row lists these, and
// the kth value is looked for in the list. Where more than an eighth of the row is selected, a second threshold, above
// the kth value, keeps the list short, and a second pass marks what is selected. The sample goes by rank alone, so it
// does not matter how the elements are distributed; only where many are equal, or the sample misled, there are more
// passes.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block/arguments.hpp"
#include "cuda/select/block/extent.cuh"
#include "cuda/select/block/kth.cuh"
#include "cuda/select/block/listed.cuh"
#include "cuda/select/block/marked_row.cuh"
#include "cuda/select/block/row.cuh"
#include "cuda/select/block/sample.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/general_row.cuh"
#include "cuda/select/result_row.cuh"

namespace rtopk::cuda {

/// What the threads of a block share.
template <class Key>
struct BlockState {
  KthMemory<Key> kth;
  CountsOfWarps of_warps;
  SampledRange<Key> from_sample;
  std::uint64_t copied;      ///< A barrier for the copy of the row.
  RowExtent<Key> extent;     ///< If the search stops early;
  KeyRange<Key> early_ties;  ///< then this, too.
};

template <class T, int kChunks, BlockTask kTask>
class BlockSelect {
 public:
  using Config = BlockConfig<T>;
  using Key = WideKey<T>;
  using State = BlockState<Key>;
  using Counts = RangeCounts;
  static_assert(sizeof(State) <= Config::kStateBytes);
  /// Of longer lists, the row is marked again.
  static constexpr int kLines = Config::candidate_lines(kChunks, kTask == BlockTask::select);

  __device__ BlockSelect(const ArgumentsFor<kTask>& args, char* shared)
      : args_(args),
        state_(state_of(shared)),
        list_(reinterpret_cast<std::uint16_t*>(shared + args.list_at)),
        row_(row_of(args, shared)),
        marked_(args, row_, row_number(), state_.of_warps, list_),
        search_(state_.kth) {}

  /// Starts to copy a general row that is not empty, if one thread can do that: the first one calls this.
  static __device__ void start(const BlockArguments& args, char* shared) {
    if constexpr (BulkCopy::kByOneThread) {
      row_of(args, shared).fetch(BulkCopy(&state_of(shared).copied), args.spares_cache);
    }
  }

  __device__ void run() {
    const BulkCopy copy(&state_.copied);
    if (!kGeneral || !BulkCopy::kByOneThread) row_.fetch(copy, args_.spares_cache);
    row_.fetch_ends();
    search_.clear();
    if (kEarly && threadIdx.x == 0) state_.extent = {kTop, 0};
    marked_.find_own_elements();
    __syncthreads();
    copy.wait();
    if (warp_number() == 0) {
      const SampledRange<Key> range = RowSample<T, false>::draw(args_, row_.elements() + row_.begin());
      if (lane_number() == 0) state_.from_sample = range;
    }
    __syncthreads();
    if constexpr (kEarly) {
      measure(row_, args_.smallest, state_.extent);
      __syncthreads();
    }
    select();
    if (args_.passes != nullptr && threadIdx.x == 0) args_.passes[row_number()] = marked_.passes();
  }

 private:
  using Warp = LaneGroup<32>;
  static constexpr bool kEarly = kTask == BlockTask::stop_early;
  using Candidates = ListedKeys<T, typename MarkedRow<T, kChunks, kTask>::KeyOf, kLines>;
  static constexpr Key kTop = core::max_key<T>;
  static constexpr bool kMagnitude = kTask == BlockTask::select_by_magnitude;
  static constexpr bool kGeneral = is_general(kTask);

  /// General rows have arguments of their own.
  [[nodiscard]] static __device__ unsigned row_number() { return kGeneral ? 0u : blockIdx.x; }
  [[nodiscard]] __device__ int k() const { return static_cast<int>(args_.k); }
  [[nodiscard]] static __device__ State& state_of(char* shared) { return *reinterpret_cast<State*>(shared); }
  [[nodiscard]] static __device__ BlockRow<T> row_of(const BlockArguments& args, char* shared) {
    return BlockRow<T>(args, row_number(), 0, static_cast<int>(args.cols), shared + Config::kStateBytes);
  }

  __device__ void select() {
    range_ = {0, kTop};
    counts_ = {static_cast<int>(args_.cols), 0};
    const SampledRange<Key> sampled = state_.from_sample;
    const bool one_threshold = args_.better_rank < 0;
    bool in_range = narrow(sampled, one_threshold ? marked_.mark_reaching(sampled.low) : marked_.mark(sampled));
    // Perhaps many elements are equal to an end of the range.
    const auto is_long = [&] {
      return range_.low < range_.high && counts_.reach - counts_.above > args_.list_capacity;
    };
    if (in_range && is_long()) {
      in_range = narrow_to(range_.low);
      if (!in_range && is_long()) in_range = narrow_to(range_.high);
    }
    const int between = counts_.reach - counts_.above;
    if (!in_range && between <= args_.list_capacity) {
      marked_.mark(range_);
      in_range = true;
    }
    if (range_.low == range_.high) {
      if constexpr (kGeneral) args_.template found<T>(static_cast<core::KeyOf<T>>(range_.low));
      if (may_differ()) return write_marked_by(early_ties_of(range_.low));
      if (!in_range) marked_.mark(range_);
      return write_marked(k() - counts_.above);
    }
    const bool lists = in_range && between <= args_.list_capacity;
    if (lists) marked_.list_between(list_);
    __syncthreads();
    const Candidates candidates(row_.elements(), lists ? list_ : nullptr, row_.begin(),
                                lists ? between : row_.end() - row_.begin(), marked_.key_of());
    const Key kth = search_.find(range_, sampled.usual_high, between, k() - counts_.above,
                                 [&](auto&& f) { candidates.for_each(f); });
    if constexpr (kGeneral) args_.template found<T>(static_cast<core::KeyOf<T>>(kth));
    const bool writes_rows = args_.form == Form::dense || args_.form == Form::mask;
    const bool from_list = candidates.are_kept() && counts_.above == 0 && !writes_rows;
    if (may_differ()) {
      const KeyRange<Key> ties = early_ties_of(kth);
      return from_list && ties.low >= range_.low ? write_listed(ties, candidates) : write_marked_by(ties);
    }
    if (from_list) return write_listed({kth, kth}, candidates);
    marked_.find_own_elements();  // again: they would have taken registers from the candidates
    const int reach = marked_.mark_reaching(kth).reach;
    if (reach == k()) return write_marked(k());
    write_marked(k() - marked_.mark({kth, kth}).above);
  }

  /// The counts of a range that was tried. True if it holds the kth value. If not, that is known to lie on one side.
  __device__ bool narrow(KeyRange<Key> tried, Counts there) {
    if (there.above >= k()) {
      range_.low = tried.high + 1;
      counts_.reach = there.above;
      return false;
    }
    if (there.reach < k()) {
      range_.high = tried.low - 1;
      counts_.above = there.reach;
      return false;
    }
    range_ = tried;
    counts_ = there;
    return true;
  }
  __device__ bool narrow_to(Key key) { return narrow({key, key}, marked_.mark({key, key})); }

  // ------------------------------------------------------------------------------------------------------------------
  // Results.

  /// Writes the candidates above a range, and the first of those in it.
  __device__ void write_listed(KeyRange<Key> ties, const Candidates& candidates) {
    const Counts own = candidates.counts(ties);
    const auto numbers = candidates.numbers();
    const auto sums = marked_.sums_of_warps(marked_.packed(own.reach, own.above));  // all have their numbers then
    const Counts all = marked_.unpacked(sums.total);
    candidates.list_selected(list_, numbers, ties, marked_.unpacked(sums.before), k() - all.above, all.reach == k());
    __syncthreads();
    marked_.write_listed(0, k(), [&](const std::uint16_t* listed) { write_sorted(listed); });
  }

  /// True if the search stops early: then what is selected may not be exact. Rows that are not finite always are.
  [[nodiscard]] __device__ bool may_differ() const {
    return kEarly && state_.extent.template is_finite<T>(args_.smallest);
  }
  /// Where the passes of a search that stops early would have ended.
  __device__ KeyRange<Key> early_ties_of(Key kth) {
    if constexpr (kEarly) {
      if (warp_number() == 0) state_.early_ties = early_ties<T>(args_, state_.extent, kth);
      __syncthreads();
    }
    return state_.early_ties;
  }
  __device__ void write_marked_by(KeyRange<Key> ties) {
    marked_.find_own_elements();
    write_marked(k() - marked_.mark(ties).above);
  }

  /// Writes the elements marked as above the range, and the first `quota` of the others that are marked.
  __device__ void write_marked(int quota) {
    marked_.write({quota, 0}, k(), [&](const std::uint16_t* numbers) { write_sorted(numbers); });
  }

  /// Sorts up to kBlockMaxSorted results by value, and by column where they are equal. One warp does it.
  __device__ void write_sorted(const std::uint16_t* numbers) {
    if (warp_number() != 0) return;
    if (k() <= 32) {
      sort_and_write<1>(args_, row_.elements(), row_.begin(), numbers);
    } else {
      sort_and_write<kBlockMaxSorted / 32>(args_, row_.elements(), row_.begin(), numbers);
    }
  }
  /// Not inlined, so that it costs the passes no registers; without references to what is in registers.
  template <int C>
  static __device__ __noinline__ void sort_and_write(const ArgumentsFor<kTask>& args, const T* elements, int begin,
                                                     const std::uint16_t* numbers) {
    // Key and complement of the number; numbers have 16 bits.
    using Entry = std::conditional_t<sizeof(T) == 2, std::uint32_t, std::uint64_t>;
    Entry entries[C];
    const int k = static_cast<int>(args.k);
#pragma unroll
    for (int i = 0; i < C; ++i) {
      const int place = i * 32 + lane_number();
      const int number = numbers[min(place, k - 1)];
      const Entry key = directed_key(compared(elements[number], kMagnitude), args.smallest);
      entries[i] = place < k ? key << 16 | static_cast<std::uint16_t>(~number) : Entry{0};
    }
    Warp::sort_descending(entries);
    T* values = args.values == nullptr ? nullptr : static_cast<T*>(args.values) + row_number() * args.k;
    with_indices(args, row_number(), [&](auto* indices) {
      using Index = std::remove_reference_t<decltype(*indices)>;
      const auto index_of = index_writer(args);
#pragma unroll
      for (int i = 0; i < C; ++i) {
        const int place = lane_number() * C + i;
        if (place >= k) continue;
        const int number = static_cast<std::uint16_t>(~entries[i]);
        if (values != nullptr) values[place] = elements[number];
        if (args.indices != nullptr) indices[place] = static_cast<Index>(index_of(number - begin));
      }
    });
  }

  const ArgumentsFor<kTask>& args_;
  State& state_;
  std::uint16_t* list_;  ///< Numbers of elements.
  BlockRow<T> row_;
  MarkedRow<T, kChunks, kTask> marked_;
  KthSearch<T> search_;

  KeyRange<Key> range_;  ///< Holds the kth value;
  Counts counts_;        ///< the counts of its ends.
};

template <class T, int kChunks, BlockTask kTask>
__global__ void __launch_bounds__(BlockConfig<T>::max_threads(kChunks),
                                  BlockConfig<T>::min_blocks(kChunks, kTask == BlockTask::stop_early))
    block_kernel(const __grid_constant__ BlockArguments args) {
  extern __shared__ __align__(256) char shared[];  // chunks are aligned
  BlockSelect<T, kChunks, kTask>(args, shared).run();
}

template <class T, int kChunks, BlockTask kTask>
__global__ void __launch_bounds__((BlockConfig<T, true>::max_threads(kChunks)),
                                  (BlockConfig<T, true>::min_blocks(kChunks, false)))
    general_block_kernel(const __grid_constant__ BlockArguments args, const __grid_constant__ RowRules rules) {
  extern __shared__ __align__(256) char shared[];  // chunks are aligned
  __shared__ GeneralRow<BlockArguments> row;
  using Select = BlockSelect<T, kChunks, kTask>;
  row.template set<T, true>(args, rules, blockIdx.x, [&](BlockArguments& own) {
    if (own.k > 0) Select::start(own, shared);
    if (own.cols != args.cols || own.k != args.k) sample_again<T>(own, Select::kLines);
  });
  if (row.k > 0) Select(row, shared).run();
  finish_row_of_block<T>(args, rules, blockIdx.x, row);
}

}  // namespace rtopk::cuda
