// cuda_block: a block for each row, which stays in shared memory.
//
// A sample of the row, sorted while the row is being copied, gives a threshold that a little more than k elements
// reach. One pass over the row lists these, and the kth value is looked for in the list. Where more than an eighth of
// the row is selected, a second threshold, above the kth value, keeps the list short, and a second pass marks what is
// selected. The sample goes by rank alone, so it does not matter how the elements are distributed; only where many are
// equal, or the sample misled, there are more passes.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block/arguments.hpp"
#include "cuda/select/block/kth.cuh"
#include "cuda/select/block/marks.cuh"
#include "cuda/select/block/row.cuh"
#include "cuda/select/block/sample.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/result_row.cuh"

namespace rtopk::cuda {

/// What the threads of a block share.
template <class Key>
struct BlockState {
  KthMemory<Key> kth;
  std::uint32_t of_warps[2][32];  ///< Counts of the warps, in alternation.
  SampledRange<Key> from_sample;
  std::uint64_t copied;  ///< A barrier for the copy of the row.
  std::uint16_t selected[kBlockMaxSorted];
};

template <class T, int kChunks>
class BlockSelect {
 public:
  using Config = BlockConfig<T>;
  using Chunk = BlockChunk<T>;
  using Threshold = MarkingThreshold<T>;
  using Key = WideKey<T>;
  using State = BlockState<Key>;
  static_assert(sizeof(State) <= Config::kStateBytes);

  __device__ BlockSelect(const BlockArguments& args, char* shared)
      : args_(args),
        state_(*reinterpret_cast<State*>(shared)),
        row_(args, blockIdx.x, shared + Config::kStateBytes),
        list_(reinterpret_cast<std::uint16_t*>(shared + args.list_at)),
        search_(state_.kth) {}

  __device__ void run() {
    const BulkCopy copy(&state_.copied);
    row_.fetch(copy, args_.spares_cache);
    search_.clear();
    if (warp_number() == 0) {
      const SampledRange<Key> range = RangeFromSample<T>::draw(args_, row_.in_global_memory());
      if (lane_number() == 0) state_.from_sample = range;
    }
    find_own_elements();
    __syncthreads();
    copy.wait();
    select();
    if (args_.passes != nullptr && threadIdx.x == 0) args_.passes[blockIdx.x] = passes_;
  }

 private:
  using Warp = LaneGroup<32>;
  static constexpr Key kTop = core::max_key<T>;
  static constexpr int kWords = Chunk::kMarkWords;
  static constexpr int kChunkElements = 32 * kWords;
  static constexpr int kOwn = Config::stride(kChunks) * Config::kPerWord;  ///< Elements of a thread.

  /// Numbers of elements: at or above the low end of a range, above its high end.
  struct Counts {
    int reach;
    int above;
  };

  [[nodiscard]] static __device__ int threads() { return static_cast<int>(blockDim.x); }
  [[nodiscard]] static __device__ int thread() { return static_cast<int>(threadIdx.x); }
  [[nodiscard]] __device__ int k() const { return static_cast<int>(args_.k); }
  [[nodiscard]] __device__ Key key_of(int number) const {
    return directed_key(row_.elements()[number], args_.smallest);
  }

  /// Marks the elements of this thread's words that belong to the row, and to no other thread.
  __device__ void find_own_elements() {
    const int first = thread() * kOwn;
    const int end = min(row_.end(), first + kOwn);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const int base = first + c * kChunkElements + w * 32;
        own_[c][w] = first_marks(end - base) & ~first_marks(row_.begin() - base);
      }
    }
  }

  /// Marks all elements by the ends of a range, and counts. `kTwo`: also those above its high end; otherwise none are.
  template <bool kTwo>
  __device__ Counts mark(KeyRange<Key> range) {
    const Threshold low(static_cast<core::KeyOf<T>>(range.low), false, args_.smallest);
    const Threshold high(static_cast<core::KeyOf<T>>(range.high), true, args_.smallest);
    const auto from = static_cast<std::uint32_t>(__cvta_generic_to_shared(row_.elements())) +
                      static_cast<std::uint32_t>(thread() * kOwn * static_cast<int>(sizeof(T)));
    int reach = 0;
    int above = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) reach_[c][w] = above_[c][w] = 0;
      if (thread() * kOwn + c * kChunkElements >= row_.end()) continue;
      Chunk::template at_most<kTwo>(from + static_cast<std::uint32_t>(c * Config::kChunkWords * Config::kWordBytes),
                                    low.bound(), high.bound(), reach_[c], above_[c]);
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        reach_[c][w] = low.marks(reach_[c][w]) & own_[c][w];
        reach += __popc(reach_[c][w]);
        above_[c][w] = kTwo ? high.marks(above_[c][w]) & own_[c][w] : 0u;
        if constexpr (kTwo) above += __popc(above_[c][w]);
      }
    }
    ++passes_;
    return count(static_cast<std::uint32_t>(reach) | static_cast<std::uint32_t>(above) << 16);
  }

  /// Sums over the block of two counts in one word: a row has fewer than 2^16 elements. Also over the threads before.
  __device__ Counts count(std::uint32_t mine) {
    const std::uint32_t up_to_here = Warp::inclusive_sum(mine);
    const Sums sums = sums_of_warps(Warp::from_lane(up_to_here, 31));
    before_ = sums.before + up_to_here - mine;
    return unpacked(sums.total);
  }
  struct Sums {
    std::uint32_t before;
    std::uint32_t total;
  };
  __device__ Sums sums_of_warps(std::uint32_t mine) {
    std::uint32_t* of_warps = state_.of_warps[turn_];
    turn_ ^= 1;
    if (lane_number() == 0) of_warps[warp_number()] = mine;
    __syncthreads();
    const std::uint32_t there = lane_number() < warps_of_block() ? of_warps[lane_number()] : 0;
    return {__reduce_add_sync(kFullWarp, lane_number() < warp_number() ? there : 0u),
            __reduce_add_sync(kFullWarp, there)};
  }
  static __device__ Counts unpacked(std::uint32_t both) {
    return {static_cast<int>(both & 0xffffu), static_cast<int>(both >> 16)};
  }

  __device__ void select() {
    range_ = {0, kTop};
    counts_ = {static_cast<int>(args_.cols), 0};
    const SampledRange<Key> sampled = state_.from_sample;
    const bool one_threshold = args_.better_rank < 0;
    bool marked = one_threshold ? narrow<false>(sampled) : narrow<true>(sampled);
    // Perhaps many elements are equal to an end of the range.
    const auto is_long = [&] {
      return range_.low < range_.high && counts_.reach - counts_.above > args_.list_capacity;
    };
    if (marked && is_long()) {
      marked = narrow<true>({range_.low, range_.low});
      if (!marked && is_long()) marked = narrow<true>({range_.high, range_.high});
    }
    const int between = counts_.reach - counts_.above;
    if (!marked && between <= args_.list_capacity) {
      mark<true>(range_);
      marked = true;
    }
    if (range_.low == range_.high) {
      if (!marked) mark<true>(range_);
      return write_marked(k() - counts_.above);
    }
    const bool lists = marked && between <= args_.list_capacity;
    if (lists) list_between();
    const int number = lists ? between : row_.end() - row_.begin();
    __syncthreads();
    const Part part = part_of(number);
    const FoundKth<Key> kth = search_.find(range_, sampled.usual_high, between, k() - counts_.above, [&](auto&& f) {
#pragma unroll 2
      for (int i = part.first + lane_number(); i < part.last; i += 32) {
        f(key_of(lists ? list_[i] : row_.begin() + i));
      }
    });
    const bool writes_rows = args_.form == Form::dense || args_.form == Form::mask;
    if (lists && counts_.above == 0 && !writes_rows) return write_listed(kth, part);
    const int reach = mark<false>({kth.key, kth.key}).reach;
    if (reach == k()) return write_marked(k());
    write_marked(k() - mark<true>({kth.key, kth.key}).above);
  }

  /// Tries a range. True if it holds the kth value, and is marked. If not, the kth value is known to lie on one side.
  template <bool kTwo>
  __device__ bool narrow(KeyRange<Key> tried) {
    const Counts there = mark<kTwo>(tried);
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

  /// Lists the elements in the range, in order.
  __device__ void list_between() {
    const Counts before = unpacked(before_);
    std::uint16_t* to = list_ + (before.reach - before.above);
    for_each([&](int c, int w) { return reach_[c][w] & ~above_[c][w]; },
             [&](int number) { *to++ = static_cast<std::uint16_t>(number); });
  }

  /// Calls f with the numbers of the elements that `marks(c, w)` marks, in order.
  template <class M, class F>
  __device__ void for_each(M&& marks, F&& f) const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const int base = thread() * kOwn + c * kChunkElements + w * 32;
#pragma unroll 1
        for (unsigned left = marks(c, w); left != 0;) {
          const int place = __clz(static_cast<int>(left));
          left ^= 0x80000000u >> place;
          f(base + place);
        }
      }
    }
  }

  // ------------------------------------------------------------------------------------------------------------------
  // Results.

  /// The listed elements of a warp: neighbours, so that results are in order.
  struct Part {
    int first;
    int last;
  };
  static __device__ Part part_of(int listed) {
    const int part = (listed + threads() - 1) / threads() * 32;
    return {warp_number() * part, min(listed, warp_number() * part + part)};
  }

  /// Writes the listed elements above the kth value, and the first of those equal to it.
  __device__ void write_listed(const FoundKth<Key>& found, Part part) {
    const int first = part.first;
    const int last = part.last;
    const Key kth = found.key;
    int reach = found.sure;
    int above = found.sure;
    if (found.sorted) {
      reach += search_.own_small([&](Key key) { return key >= kth; });
      above += search_.own_small([&](Key key) { return key > kth; });
    } else {
      for (int i = first + lane_number(); i < last; i += 32) {
        const Key key = key_of(list_[i]);
        reach += key >= kth ? 1 : 0;
        above += key > kth ? 1 : 0;
      }
    }
    const auto both = static_cast<std::uint32_t>(reach) | static_cast<std::uint32_t>(above) << 16;
    const Sums sums = sums_of_warps(__reduce_add_sync(kFullWarp, both));
    const Counts all = unpacked(sums.total);
    const Counts before = unpacked(sums.before);
    T* values = args_.values == nullptr ? nullptr : static_cast<T*>(args_.values) + blockIdx.x * args_.k;
    const unsigned earlier = (1u << lane_number()) - 1u;
    with_indices(args_, blockIdx.x, [&](auto* indices) {
      using Index = std::remove_reference_t<decltype(*indices)>;
      // `selected` decides, for all lanes, which of them are.
      const auto write = [&](int place, auto&& selected) {
#pragma unroll 1
        for (int line = first; line < last; line += 32) {
          const int i = line + lane_number();
          const int number = list_[min(i, last - 1)];
          const T raw = row_.elements()[number];
          const unsigned chosen = selected(static_cast<Key>(directed_key(raw, args_.smallest)), i < last);
          if ((chosen >> lane_number() & 1u) != 0) {
            const int at = place + __popc(chosen & earlier);
            if (args_.by_value) {
              state_.selected[at] = static_cast<std::uint16_t>(number);
            } else {
              if (values != nullptr) values[at] = raw;
              if (args_.indices != nullptr) indices[at] = static_cast<Index>(row_.column(number));
            }
          }
          place += __popc(chosen);
        }
      };
      if (all.reach == k()) {
        return write(before.reach,
                     [&](Key key, bool exists) { return __ballot_sync(kFullWarp, exists && key >= kth); });
      }
      const int quota = k() - all.above;
      int places = quota - (before.reach - before.above);
      write(before.above + min(before.reach - before.above, quota), [&](Key key, bool exists) {
        const unsigned equal = __ballot_sync(kFullWarp, exists && key == kth);
        const bool taken = key == kth && __popc(equal & earlier) < places;
        places -= __popc(equal);
        return __ballot_sync(kFullWarp, exists && (key > kth || taken));
      });
    });
    if (args_.by_value) {
      __syncthreads();
      write_sorted(state_.selected);
    }
  }

  /// Writes the elements marked as above the range, and the first `quota` of the others that are marked.
  __device__ void write_marked(int quota) {
    const Counts before = unpacked(before_);
    const int ties_before = before.reach - before.above;
    const int first_result = before.above + min(ties_before, quota);
    int places = quota - ties_before;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        unsigned ties = reach_[c][w] & ~above_[c][w];
        const int number = __popc(ties);
        // The last one is in the lowest bit.
#pragma unroll 1
        for (int surplus = number - max(places, 0); surplus > 0; --surplus) ties &= ties - 1;
        places -= number;
        above_[c][w] |= ties;
      }
    }
    if (args_.form == Form::dense) {
      write_dense();
    } else if (args_.form == Form::mask) {
      write_mask();
    } else {
      write_pairs(first_result);
    }
  }

  __device__ void write_pairs(int first_result) {
    std::uint16_t* to = list_ + first_result;
    __syncthreads();  // the list may still be read
    for_each([&](int c, int w) { return above_[c][w]; },
             [&](int number) { *to++ = static_cast<std::uint16_t>(number); });
    __syncthreads();
    if (args_.by_value) return write_sorted(list_);
    T* values = args_.values == nullptr ? nullptr : static_cast<T*>(args_.values) + blockIdx.x * args_.k;
    with_indices(args_, blockIdx.x, [&](auto* indices) {
      using Index = std::remove_reference_t<decltype(*indices)>;
      const bool wants_indices = args_.indices != nullptr;
#pragma unroll 2
      for (int i = thread(); i < k(); i += threads()) {
        const int number = list_[i];
        if (values != nullptr) values[i] = row_.elements()[number];
        if (wants_indices) indices[i] = static_cast<Index>(row_.column(number));
      }
    });
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
  static __device__ __noinline__ void sort_and_write(const BlockArguments& args, const T* elements, int begin,
                                                     const std::uint16_t* numbers) {
    // Key and complement of the number; numbers have 16 bits.
    using Entry = std::conditional_t<sizeof(T) == 2, std::uint32_t, std::uint64_t>;
    Entry entries[C];
    const int k = static_cast<int>(args.k);
#pragma unroll
    for (int i = 0; i < C; ++i) {
      const int place = i * 32 + lane_number();
      const int number = numbers[min(place, k - 1)];
      const Entry key = directed_key(elements[number], args.smallest);
      entries[i] = place < k ? key << 16 | static_cast<std::uint16_t>(~number) : Entry{0};
    }
    Warp::sort_descending(entries);
    T* values = args.values == nullptr ? nullptr : static_cast<T*>(args.values) + blockIdx.x * args.k;
    with_indices(args, blockIdx.x, [&](auto* indices) {
      using Index = std::remove_reference_t<decltype(*indices)>;
#pragma unroll
      for (int i = 0; i < C; ++i) {
        const int place = lane_number() * C + i;
        if (place >= k) continue;
        const int number = static_cast<std::uint16_t>(~entries[i]);
        if (values != nullptr) values[place] = elements[number];
        if (args.indices != nullptr) indices[place] = static_cast<Index>(number - begin);
      }
    });
  }

  /// Clears what is not selected, then copies the row.
  __device__ void write_dense() {
    T* elements = row_.elements();
    for_each([&](int c, int w) { return own_[c][w] & ~above_[c][w]; }, [&](int number) { elements[number] = T{}; });
    __syncthreads();
    write_out(static_cast<T*>(args_.dense) + blockIdx.x * args_.cols - row_.begin(), elements);
  }

  /// The marks as bytes, in the memory of the elements.
  __device__ void write_mask() {
    __syncthreads();  // all have read the elements
    std::uint8_t* out = args_.mask + blockIdx.x * args_.cols - row_.begin();
    // As far from a multiple of 16 bytes as in global memory.
    auto* bytes = reinterpret_cast<std::uint8_t*>(row_.elements()) + reinterpret_cast<std::uintptr_t>(out) % 16;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        std::uint8_t* to = bytes + thread() * kOwn + c * kChunkElements + w * 32;
#pragma unroll 8
        for (int j = 0; j < 32; ++j) {
          if ((own_[c][w] << j & 0x80000000u) != 0) to[j] = static_cast<std::uint8_t>(above_[c][w] >> (31 - j) & 1u);
        }
      }
    }
    __syncthreads();
    write_out(out, bytes);
  }

  /// Copies a row's elements, as vectors if both sides are aligned in the same way.
  template <class X>
  __device__ void write_out(X* to, const X* from) const {
    constexpr int kOf = 16 / static_cast<int>(sizeof(X));
    const int begin = row_.begin();
    const int end = row_.end();
    const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(from + begin));
    if ((static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(to + begin)) - shared) % 16 != 0) {
#pragma unroll 4
      for (int i = begin + thread(); i < end; i += threads()) to[i] = from[i];
      return;
    }
    // Elements before the first whole vector, and after the last one.
    const int first = min(begin + static_cast<int>((16 - shared % 16) % 16 / sizeof(X)), end);
    const int whole = (end - first) / kOf * kOf;
#pragma unroll 2
    for (int i = first + thread() * kOf; i < first + whole; i += threads() * kOf) {
      *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(from + i);
    }
    if (begin + thread() < first) to[begin + thread()] = from[begin + thread()];
    if (first + whole + thread() < end) to[first + whole + thread()] = from[first + whole + thread()];
  }

  const BlockArguments& args_;
  State& state_;
  BlockRow<T> row_;
  std::uint16_t* list_;  ///< Numbers of elements.
  KthSearch<T> search_;

  KeyRange<Key> range_;  ///< Holds the kth value;
  Counts counts_;        ///< the counts of its ends.
  unsigned own_[kChunks][kWords];
  unsigned reach_[kChunks][kWords];
  unsigned above_[kChunks][kWords];
  std::uint32_t before_ = 0;  ///< The last counts, of the threads before this one.
  int turn_ = 0;
  int passes_ = 0;
};

template <class T, int kChunks>
__global__ void __launch_bounds__(BlockConfig<T>::max_threads(kChunks), BlockConfig<T>::min_blocks(kChunks))
    block_kernel(const __grid_constant__ BlockArguments args) {
  extern __shared__ __align__(16) char shared[];
  BlockSelect<T, kChunks>(args, shared).run();
}

}  // namespace rtopk::cuda
