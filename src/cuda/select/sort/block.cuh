// Sorts up to 4096 results of a row by value in the registers of a block: as a warp does it (warp.cuh), but warps
// exchange words through shared memory. For results that are too many for a warp, or if rows are few.
#pragma once

#include <bit>
#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/bins.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/general_row.cuh"
#include "cuda/select/sort/results.cuh"
#include "plan/select/tuning_sort.hpp"

namespace rtopk::cuda {

template <class T, int kWarps>
class BlockSort {
 public:
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int C = BlockSortConfig::kItems;  ///< Results of a thread.
  static constexpr int kPlaces = kThreads * C;
  using Key = WideKey<T>;

  struct Memory {
    alignas(16) std::uint32_t words[2][kPlaces];  ///< In alternation.
    SortedResults<T, kPlaces> results;
    KeyRange<Key> ranges[kWarps];  ///< Of the warps' keys.
  };

  __device__ BlockSort(const SelectArguments& args, Memory& memory)
      : memory_(memory), k_(static_cast<int>(args.k)), smallest_(args.smallest) {}

  __device__ void run(const SelectArguments& args, std::int64_t row) {
    const KeyRange<Key> mine = memory_.results.read(args, row, thread(), kThreads);
    const KeyRange<Key> of_warp = {Warp::least(mine.low), Warp::greatest(mine.high)};
    if (lane_number() == 0) memory_.ranges[warp_number()] = of_warp;
    __syncthreads();
    const KeyRange<Key> there = memory_.ranges[lane_number() % kWarps];
    least_ = Warp::least(there.low);
    bits_ = bits_of(Warp::greatest(there.high) - least_);
    sort();
    memory_.results.write(args, row, thread(), kThreads);
    __syncthreads();  // the next row uses the same memory
  }

 private:
  using Warp = LaneGroup<32>;
  static constexpr int kPlaceBits = std::bit_width(static_cast<unsigned>(kPlaces - 1));
  static constexpr std::uint32_t kPlaceMask = kPlaces - 1;
  static constexpr int kDigitBits = 32 - kPlaceBits;

  [[nodiscard]] static __device__ int thread() { return static_cast<int>(threadIdx.x); }
  [[nodiscard]] __device__ Key key_at(int place) const { return memory_.results.key_at(place, smallest_); }

  /// Leaves the places in the results' order, largest result first.
  __device__ void sort() {
    const int highest = max(bits_ - kDigitBits, 0);
    sort_by_digit(highest, false);
    if (highest == 0 || break_ties()) return;
#pragma unroll 1
    for (int shift = 0; shift < bits_; shift += kDigitBits) sort_by_digit(shift, shift > 0);
  }

  /// Sorts by the bits of the key from `shift` on. Equal ones stay in the order that they have, or in that of their
  /// places.
  __device__ void sort_by_digit(int shift, bool has_order) {
    std::uint16_t* order = memory_.results.order;
    std::uint32_t words[C];
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int rank = j * kThreads + thread();
      words[j] = 0;  // comes last
      if (rank >= k_) continue;
      const Key distance = key_at(has_order ? order[rank] : rank) - least_;
      words[j] = static_cast<std::uint32_t>(distance >> shift) << kPlaceBits |
                 (~static_cast<std::uint32_t>(rank) & kPlaceMask);
    }
    sort_words(words);
    sorted_ = turn_;
    exchanged(words);  // for the look at ties
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const std::uint32_t rank = ~words[j] & kPlaceMask;
      words[j] = has_order && thread() * C + j < k_ ? order[rank] : rank;
    }
    if (has_order) __syncthreads();  // all have read
    *reinterpret_cast<uint2*>(order + thread() * C) = {words[0] | words[1] << 16, words[2] | words[3] << 16};
    __syncthreads();
  }

  /// A bitonic network, in the form in which every exchange leaves the larger word at the lower rank.
  __device__ void sort_words(std::uint32_t (&words)[C]) {
    Warp::sort_descending(words);
#pragma unroll
    for (int threads = 64; threads <= kThreads; threads *= 2) {
      exchange(words, thread() ^ (threads - 1), true);
#pragma unroll
      for (int distance = threads / 4; distance >= 32; distance /= 2) exchange(words, thread() ^ distance, false);
      Warp::merge_descending(words);
    }
  }

  /// Keeps the larger words of two threads, or the smaller ones. `mirrored`: ranks of the other thread count backwards.
  __device__ void exchange(std::uint32_t (&words)[C], int other_thread, bool mirrored) {
    static_assert(C == 4);
    const std::uint32_t* all = exchanged(words);
    const uint4 there = *reinterpret_cast<const uint4*>(all + other_thread * C);
    const std::uint32_t others[C] = {mirrored ? there.w : there.x, mirrored ? there.z : there.y,
                                     mirrored ? there.y : there.z, mirrored ? there.x : there.w};
    const bool keeps_greater = thread() < other_thread;
#pragma unroll
    for (int j = 0; j < C; ++j) words[j] = keeps_greater ? max(words[j], others[j]) : min(words[j], others[j]);
  }

  /// Shows all threads this one's words.
  __device__ const std::uint32_t* exchanged(const std::uint32_t (&words)[C]) {
    std::uint32_t* all = memory_.words[turn_];
    turn_ ^= 1;
    *reinterpret_cast<uint4*>(all + thread() * C) = {words[0], words[1], words[2], words[3]};
    __syncthreads();
    return all;
  }

  /// Puts results with the same highest digit in order by their keys. The thread of its first member looks after a
  /// group of them. False if a group has many members.
  __device__ bool break_ties() {
    constexpr int kMost = 8;
    const std::uint32_t* words = memory_.words[sorted_];
    const std::uint16_t* order = memory_.results.order;
    const auto is_tied = [&](int rank) {  // with the rank before
      return rank > 0 && rank < k_ && (words[rank - 1] ^ words[rank]) <= kPlaceMask;
    };
    // Results that are equal in all digits are in order already.
    bool in_order = true;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int rank = thread() * C + j;
      if (is_tied(rank)) in_order &= key_at(order[rank - 1]) >= key_at(order[rank]);
    }
    if (__syncthreads_and(in_order ? 1 : 0) != 0) return true;
    bool few = true;
#pragma unroll 1
    for (int rank = thread() * C; rank < thread() * C + C; ++rank) {
      const bool begins = !is_tied(rank) && is_tied(rank + 1);
      int members = begins ? 2 : 0;
      while (members >= 2 && members <= kMost && is_tied(rank + members)) ++members;
      few &= members <= kMost;
      memory_.results.order_by_key(rank, members <= kMost ? members : 0, smallest_);
    }
    return __syncthreads_and(few ? 1 : 0) != 0;
  }

  Memory& memory_;
  int k_;
  bool smallest_;
  Key least_;
  int bits_;        ///< Of the distance from the least key to the greatest.
  int turn_ = 0;    ///< Of the words' memory.
  int sorted_ = 0;  ///< Where the sorted words are.
};

template <class T, int kWarps>
__global__ void __launch_bounds__(32 * kWarps, 32 / kWarps)
    block_sort_kernel(const __grid_constant__ SelectArguments args) {
  using Sort = BlockSort<T, kWarps>;
  extern __shared__ __align__(16) char shared[];
  static_assert(sizeof(typename Sort::Memory) <= BlockSortConfig::shared_bytes(kWarps, sizeof(T)));
  Sort sort(args, *reinterpret_cast<typename Sort::Memory*>(shared));
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) sort.run(args, row);
}

/// The same for general rows.
template <class T, int kWarps>
__global__ void __launch_bounds__(32 * kWarps, 32 / kWarps)
    general_block_sort_kernel(const __grid_constant__ SelectArguments args, const __grid_constant__ RowRules rules) {
  using Sort = BlockSort<T, kWarps>;
  extern __shared__ __align__(16) char shared[];
  __shared__ GeneralRow<SelectArguments> own;
  for (std::int64_t number = blockIdx.x; number < args.rows; number += gridDim.x) {
    own.template set<T, false>(args, rules, number, [](SelectArguments&) {});
    if (own.k > 0) Sort(own, *reinterpret_cast<typename Sort::Memory*>(shared)).run(own, 0);
    finish_row_of_block<T>(args, rules, number, own, true);
  }
}

}  // namespace rtopk::cuda
