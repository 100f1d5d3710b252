// How a warp marks and writes selected elements that lie next to each other: a ballot for the elements of its lanes, from
// which each lane knows the places of its results, and predicated stores.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/at_most.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/result_row.cuh"

namespace rtopk::cuda {

/// What a lane reads at a time: an element, or two of 16 bits.
template <class T>
using VoteWord = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
template <class T>
inline constexpr int kPerVoteWord = sizeof(VoteWord<T>) / sizeof(T);

/// Bits for those of the warp's elements that reach a threshold, the first of each word first.
template <class T>
struct WordVotes {
  unsigned of[kPerVoteWord<T>];
};

/// `threshold.marks(x)` is (x & keep) ^ flip, in one instruction.
template <class T>
struct VoteThreshold {
  typename MarkingThreshold<T>::Bound bound;
  unsigned flip;
  unsigned keep;

  __device__ explicit VoteThreshold(const MarkingThreshold<T>& threshold)
      : bound(threshold.bound()), flip(threshold.marks(0)), keep(flip ^ threshold.marks(~0u)) {}

  __device__ WordVotes<T> votes(VoteWord<T> word) const {
    WordVotes<T> result;
    if constexpr (kPerVoteWord<T> == 2) {
      const unsigned halves = AtMost<T>::halves(word, bound);
      result.of[0] = (__ballot_sync(kFullWarp, (halves & 0xffffu) != 0) & keep) ^ flip;
      result.of[1] = (__ballot_sync(kFullWarp, halves >> 16 != 0) & keep) ^ flip;
    } else {
      result.of[0] = (__ballot_sync(kFullWarp, std::bit_cast<T>(word) <= bound) & keep) ^ flip;
    }
    return result;
  }
};

/// Of the elements before the lane's word.
template <class T>
__device__ int votes_before_lane(const WordVotes<T>& votes) {
  const unsigned earlier = (1u << lane_number()) - 1u;
  int number = 0;
#pragma unroll
  for (int j = 0; j < kPerVoteWord<T>; ++j) number += __popc(votes.of[j] & earlier);
  return number;
}

/// The results that most callers want. Their stores are predicated, where a compiler would branch.
template <class T>
struct UsualResults {
  T* values;
  std::int32_t* indices;

  __device__ void write_if(unsigned chosen, int position, VoteWord<T> value, int index) const {
    T* to = values + position;
    if constexpr (sizeof(T) == 2) {
      asm volatile(
          "{ .reg .pred p; setp.ne.u32 p, %0, 0; @p st.global.b16 [%1], %2; @p st.global.b32 [%3], %4; }" ::"r"(chosen),
          "l"(to), "h"(static_cast<std::uint16_t>(value)), "l"(indices + position), "r"(index)
          : "memory");
    } else if constexpr (sizeof(T) == 4) {
      asm volatile(
          "{ .reg .pred p; setp.ne.u32 p, %0, 0; @p st.global.b32 [%1], %2; @p st.global.b32 [%3], %4; }" ::"r"(chosen),
          "l"(to), "r"(value), "l"(indices + position), "r"(index)
          : "memory");
    } else {
      asm volatile(
          "{ .reg .pred p; setp.ne.u32 p, %0, 0; @p st.global.b64 [%1], %2; @p st.global.b32 [%3], %4; }" ::"r"(chosen),
          "l"(to), "l"(value), "l"(indices + position), "r"(index)
          : "memory");
    }
  }
};

/// Any others.
template <class T>
struct AnyResults : ResultRow<T> {
  __device__ void write_if(unsigned chosen, int position, VoteWord<T> value, int index) const {
    if (chosen != 0) this->write(position, std::bit_cast<T>(static_cast<core::KeyOf<T>>(value)), index);
  }
};

}  // namespace rtopk::cuda
