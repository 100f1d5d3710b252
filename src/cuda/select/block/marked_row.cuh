// A row in shared memory, or a block's part of one, with marks of its elements, and what is written from marks. A
// thread has neighbouring elements.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block/arguments.hpp"
#include "cuda/select/block/marks.cuh"
#include "cuda/select/block/row.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/early_stop.cuh"
#include "cuda/select/general_row.cuh"
#include "cuda/select/key_range.cuh"
#include "cuda/select/result_row.cuh"
#include "cuda/select/written_index.cuh"

namespace rtopk::cuda {

template <BlockTask kTask>
using ArgumentsFor = std::conditional_t<is_general(kTask), GeneralRow<BlockArguments>, BlockArguments>;

/// Counts of a block's warps, two sets in alternation.
using CountsOfWarps = std::uint32_t[2][32];

template <class T, int kChunks, BlockTask kTask>
class MarkedRow {
 public:
  using Config = BlockConfig<T>;
  using Key = WideKey<T>;
  using Arguments = ArgumentsFor<kTask>;
  static constexpr bool kMagnitude = kTask == BlockTask::select_by_magnitude;

  /// `list`: in shared memory, with room for all selected elements of the block.
  __device__ MarkedRow(const Arguments& args, const BlockRow<T>& row, unsigned row_number, CountsOfWarps& of_warps,
                       std::uint16_t* list)
      : args_(args), row_(row), row_number_(row_number), of_warps_(of_warps), list_(list) {}

  /// Comes first. It can run while the row is being copied.
  __device__ void find_own_elements() {
    const int first = opaque(thread() * kOwn);  // so that it is computed where it is asked for
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

  [[nodiscard]] __device__ const BlockRow<T>& row() const { return row_; }
  /// Made before a loop, so that what it needs is in registers.
  struct KeyOf {
    bool smallest;
    __device__ Key operator()(T raw) const { return directed_key(compared(raw, kMagnitude), smallest); }
  };
  [[nodiscard]] __device__ KeyOf key_of() const { return {args_.smallest}; }
  [[nodiscard]] __device__ int passes() const { return passes_; }

  /// Marks all elements by the ends of a range, and counts them.
  __device__ RangeCounts mark(KeyRange<Key> range) { return mark_by<true>(range); }
  /// Marks those that reach a key. None count as above.
  __device__ RangeCounts mark_reaching(Key low) { return mark_by<false>({low, low}); }

  /// Lists the elements marked as in the range, in order.
  __device__ void list_between(std::uint16_t* list) const {
    const RangeCounts before = unpacked(before_);
    std::uint16_t* to = list + (before.reach - before.above);
    for_each([&](int c, int w) { return reach_[c][w] & ~above_[c][w]; },
             [&](int number) { *to++ = static_cast<std::uint16_t>(number); });
  }

  /// Writes the elements marked as above the range, and the first of the others that are marked. `number`: how many
  /// that is.
  template <class WriteSorted>
  __device__ void write(SelectedShare share, int number, WriteSorted&& write_sorted) {
    const RangeCounts before = unpacked(before_);
    const int ties_before = before.reach - before.above;
    drop_ties(share.quota - ties_before);
    if (args_.form == Form::dense || args_.form == Form::mask) {
      Marks own;
      Marks selected;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          own.words[c][w] = own_[c][w];
          selected.words[c][w] = above_[c][w];
        }
      }
      return write_row(args_, row_, row_number_, own, selected);
    }
    list_selected(before.above + min(ties_before, share.quota));
    write_listed(share.first_result, number, write_sorted);
  }

  /// Writes the elements that are listed. `number`: how many that is.
  template <class WriteSorted>
  __device__ void write_listed(int first_result, int number, WriteSorted&& write_sorted) const {
    if (args_.by_value) return write_sorted(list_);
    const std::int64_t first = row_number_ * args_.k + first_result;
    T* values = args_.values == nullptr ? nullptr : static_cast<T*>(args_.values) + first;
    with_indices(args_, row_number_, [&](auto* indices) {
      using Index = std::remove_reference_t<decltype(*indices)>;
      const bool wants_indices = args_.indices != nullptr;
      const auto index_of = index_writer(args_);
#pragma unroll 2
      for (int i = thread(); i < number; i += threads()) {
        const int listed = list_[i];
        if (values != nullptr) values[i] = row_.elements()[listed];
        if (wants_indices) indices[first_result + i] = static_cast<Index>(index_of(row_.column(listed)));
      }
    });
  }

  struct Sums {
    std::uint32_t before;
    std::uint32_t total;
  };
  /// Sums over the warps before this one, and over all.
  __device__ Sums sums_of_warps(std::uint32_t mine) {
    std::uint32_t* of_warps = of_warps_[turn_];
    turn_ ^= 1;
    if (lane_number() == 0) of_warps[warp_number()] = mine;
    __syncthreads();
    const std::uint32_t there = lane_number() < warps_of_block() ? of_warps[lane_number()] : 0;
    return {__reduce_add_sync(kFullWarp, lane_number() < warp_number() ? there : 0u),
            __reduce_add_sync(kFullWarp, there)};
  }

  /// Two counts in one word: a block has fewer than 2^16 elements.
  static __device__ std::uint32_t packed(int reach, int above) {
    return static_cast<std::uint32_t>(reach) | static_cast<std::uint32_t>(above) << 16;
  }
  static __device__ RangeCounts unpacked(std::uint32_t both) {
    return {static_cast<int>(both & 0xffffu), static_cast<int>(both >> 16)};
  }

 private:
  using Warp = LaneGroup<32>;
  using Chunk = BlockChunk<T, kMagnitude>;
  using Vectors = ChunkVectors<Config::kWordBytes>;
  using Threshold = MarkingThreshold<T>;
  static constexpr int kWords = Chunk::kMarkWords;
  static constexpr int kChunkElements = 32 * kWords;
  static constexpr int kOwn = kChunks * kChunkElements;  ///< Elements of a thread.

  [[nodiscard]] static __device__ int threads() { return static_cast<int>(blockDim.x); }
  [[nodiscard]] static __device__ int thread() { return static_cast<int>(threadIdx.x); }

  template <bool kTwo>
  __device__ RangeCounts mark_by(KeyRange<Key> range) {
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
    return count(packed(reach, above));
  }

  /// Sums over the block, and over the threads before this one.
  __device__ RangeCounts count(std::uint32_t mine) {
    const std::uint32_t up_to_here = Warp::inclusive_sum(mine);
    const Sums sums = sums_of_warps(Warp::from_lane(up_to_here, 31));
    before_ = sums.before + up_to_here - mine;
    return unpacked(sums.total);
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

  /// Adds the first `places` of this thread's elements in the range to those above it.
  __device__ void drop_ties(int places) {
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
  }

  /// `first`: the place of this thread's first one.
  __device__ void list_selected(int first) {
    std::uint16_t* to = list_ + first;
    __syncthreads();  // the list may still be read
    for_each([&](int c, int w) { return above_[c][w]; },
             [&](int number) { *to++ = static_cast<std::uint16_t>(number); });
    __syncthreads();
  }

  struct Marks {
    unsigned words[kChunks][kWords];
  };

  /// Writes a whole row. Not inlined, so that it costs the search no registers; everything by value.
  static __device__ __noinline__ void write_row(const Arguments& args, BlockRow<T> row, unsigned row_number, Marks own,
                                                Marks selected) {
    if (args.form == Form::dense) {
      write_dense(args, row, row_number, selected);
    } else {
      write_mask(args, row, row_number, own, selected);
    }
  }

  /// Clears what is not selected, then copies the row.
  static __device__ void write_dense(const Arguments& args, const BlockRow<T>& row, unsigned row_number,
                                     const Marks& selected) {
    T* elements = row.elements();
    const int first_own = thread() * kOwn;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      T* chunk = elements + first_own + c * kChunkElements;
      if (first_own + c * kChunkElements >= row.end()) continue;
#pragma unroll 2
      for (int turn = 0; turn < Vectors::kNumber; ++turn) {
        const int first = Vectors::in_turn(turn) * Config::kVector;
        const unsigned marks = (first < 32 ? selected.words[c][0] : selected.words[c][kWords - 1]) << first % 32;
        uint4 vector = *reinterpret_cast<const uint4*>(chunk + first);
        auto* of_vector = reinterpret_cast<T*>(&vector);
#pragma unroll
        for (int j = 0; j < Config::kVector; ++j) {
          if ((marks << j & 0x80000000u) == 0) of_vector[j] = T{};
        }
        *reinterpret_cast<uint4*>(chunk + first) = vector;
      }
    }
    __syncthreads();
    write_out(row, static_cast<T*>(args.dense) + row_number * args.cols + row.column(0), elements);
  }

  /// The marks as bytes, in the memory of the elements.
  static __device__ void write_mask(const Arguments& args, const BlockRow<T>& row, unsigned row_number,
                                    const Marks& own, const Marks& selected) {
    __syncthreads();  // all have read the elements
    std::uint8_t* out = args.mask + row_number * args.cols + row.column(0);
    // As far from a multiple of 16 bytes as in global memory.
    auto* bytes = reinterpret_cast<std::uint8_t*>(row.elements()) + reinterpret_cast<std::uintptr_t>(out) % 16;
    const int first_own = thread() * kOwn;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        std::uint8_t* to = bytes + first_own + c * kChunkElements + w * 32;
#pragma unroll 8
        for (int turn = 0; turn < 32; ++turn) {
          const int j = (turn + lane_number()) % 32;  // another bank for every lane, or nearly so
          if ((own.words[c][w] << j & 0x80000000u) != 0)
            to[j] = static_cast<std::uint8_t>(selected.words[c][w] >> (31 - j) & 1u);
        }
      }
    }
    __syncthreads();
    write_out(row, out, bytes);
  }

  /// Copies a row's elements, as vectors if both sides are aligned in the same way.
  template <class X>
  static __device__ void write_out(const BlockRow<T>& row, X* to, const X* from) {
    constexpr int kOf = 16 / static_cast<int>(sizeof(X));
    const int begin = row.begin();
    const int end = row.end();
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

  const Arguments& args_;
  BlockRow<T> row_;
  unsigned row_number_;
  CountsOfWarps& of_warps_;
  std::uint16_t* list_;            ///< Numbers of elements.
  unsigned own_[kChunks][kWords];  ///< Marks of the elements that belong to the row, and to no other thread.
  unsigned reach_[kChunks][kWords];
  unsigned above_[kChunks][kWords];
  std::uint32_t before_ = 0;  ///< The last counts, of the threads before this one.
  int turn_ = 0;
  int passes_ = 0;
};

}  // namespace rtopk::cuda
