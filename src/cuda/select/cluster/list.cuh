// The list of a block's candidates in shared memory: the elements of its part that reach a threshold, in any order.
//
// A list that is full is pruned: the threshold rises to a key that k of the listed elements reach, and the others are
// dropped. No data can make this fail, and nothing is read again.
#pragma once

#include <cstdint>

#include "cuda/select/block_sums.cuh"
#include "cuda/select/cluster/sums.cuh"
#include "cuda/select/element.cuh"
#include "cuda/select/key_range.cuh"
#include "cuda/select/part_search.cuh"
#include "plan/select/tuning_cluster.hpp"

namespace rtopk::cuda {

/// What the threads of a block share.
template <class Key>
struct ListState {
  Key threshold;
  int is_strict;  ///< Elements equal to the threshold are counted, not listed.
  int equal;      ///< How many there are.
  int listed;     ///< Also those that found no room.
  int stored;     ///< If the list is full: the elements in it.
  int is_full;    ///< Then nothing more fits, until it has been pruned.
};

template <class T, bool kMagnitude>
struct CandidateList {
  using Key = WideKey<T>;
  using State = ListState<Key>;

  T* elements;
  int* columns;  ///< Counted from the part's first.
  int capacity;

  /// `memory`: for `room` elements, a multiple of 32, and their columns.
  __device__ CandidateList(char* memory, int room)
      : elements(reinterpret_cast<T*>(memory)), columns(reinterpret_cast<int*>(elements + room)), capacity(room) {}

  static __device__ Key key_of(T raw, bool smallest) { return directed_key(compared(raw, kMagnitude), smallest); }

  /// By one thread, before a barrier.
  static __device__ void start(State& state, Key threshold, bool is_strict) {
    state = {threshold, is_strict ? 1 : 0, 0, 0, 0x7fffffff, 0};
  }

  __device__ void put(int at, T raw, int column) const {
    elements[at] = raw;
    columns[at] = column;
  }

  /// Takes room for `number` elements of each lane: the place of this lane's first one, or -1 if the list is full, for
  /// all lanes alike.
  __device__ int room_for(State& state, int number) const {
    using Warp = LaneGroup<32>;
    const int up_to_here = static_cast<int>(Warp::inclusive_sum(static_cast<std::uint32_t>(number)));
    int first = 0;
    if (lane_number() == 31) {
      // In this form the compiler does not see that one lane is alone, and would add up all lanes' numbers first.
      asm volatile("atom.shared.add.s32 %0, [%1], %2;"
                   : "=r"(first)
                   : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(&state.listed))), "r"(up_to_here)
                   : "memory");
      if (first + up_to_here > capacity) {
        atomicMin(&state.stored, first);
        state.is_full = 1;
        first = -1;
      }
    }
    first = Warp::from_lane(first, 31);
    return first < 0 ? -1 : first + up_to_here - number;
  }

  /// Keeps those of the first `number` elements for which keeps(raw) holds, in their order, and returns how many these
  /// are. All threads of the block call this after a barrier.
  template <class F>
  __device__ int keep(int number, F keeps, BlockSums& sums) const {
    int kept = 0;
#pragma unroll 1
    for (int first = 0; first < number; first += static_cast<int>(blockDim.x)) {
      const int i = first + static_cast<int>(threadIdx.x);
      const int from = min(i, number - 1);
      const T raw = elements[from];
      const int column = columns[from];
      const bool stays = i < number && keeps(raw);
      const BlockSums::Sums places = sums.before(stays ? 1 : 0);  // a barrier: all have read
      if (stays) put(kept + places.before, raw, column);
      kept += places.total;
    }
    return kept;
  }

  /// All threads of the block call this after a barrier; ends with one. At least k elements are stored.
  static __device__ void prune(CandidateList list, State& state, PartSearchMemory<Key>& memory,
                               BlockSums::Memory& of_warps, int k, bool smallest) {
    const int stored = state.stored;  // no thread of the block has listed more
    const Candidates candidates{list.elements, state, stored, smallest};
    const SearchAlone alone{k};
    PartSearch<Key, SearchAlone, SearchedBy::one> search(memory, alone);
    KeyRange<Key> range{state.threshold, core::max_key<T>};
    search.narrow(candidates, range, range.high, {stored, 0});
    BlockSums sums(of_warps);
    int reach = 0;
    int above = 0;
    candidates.for_each([&](Key key) {
      reach += key >= range.low ? 1 : 0;
      above += key > range.low ? 1 : 0;
    });
    reach = sums.total(reach);
    above = sums.total(above);
    // Many are equal to the threshold if too little room is left.
    const bool is_strict = reach > list.capacity - kClusterMinRoom;
    const Key least = is_strict ? range.low + 1 : range.low;
    const int kept = list.keep(
        stored, [&](T raw) { return key_of(raw, smallest) >= least; }, sums);
    search.prepare();
    __syncthreads();
    if (threadIdx.x == 0) {
      start(state, range.low, is_strict);
      state.equal = is_strict ? reach - above : 0;
      state.listed = kept;
    }
    __syncthreads();
  }

  /// For the search.
  struct Candidates {
    const T* elements;
    const State& state;
    int listed;
    bool smallest;

    template <class F>
    __device__ void for_each(F&& f) const {
#pragma unroll 2
      for (int i = static_cast<int>(threadIdx.x); i < listed; i += static_cast<int>(blockDim.x)) {
        f(key_of(elements[i], smallest));
      }
    }
    [[nodiscard]] __device__ Key equal_key() const { return state.threshold; }
    [[nodiscard]] __device__ int equal() const { return state.equal; }
  };
};

}  // namespace rtopk::cuda
