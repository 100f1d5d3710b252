// The bracket of a row, from a sample of it. It depends on ranks alone, so the distribution of the elements does not matter.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/element.cuh"
#include "cuda/select/key_range.cuh"
#include "plan/select/tuning_bracket.hpp"

namespace rtopk::cuda {

/// An end of a bracket. Elements reach it at or above `key`; or, if `next`, above it.
template <class Key>
struct KeyEdge {
  Key key;
  bool next;

  [[nodiscard]] __device__ bool is_reached_by(Key other) const { return next ? other > key : other >= key; }
};

/// Elements that reach `worse` but not `better`.
template <class Key>
struct Bracket {
  KeyEdge<Key> worse;
  KeyEdge<Key> better;
  Key usual_high;  ///< Few elements exceed it.
  bool is_tie;     ///< It has one key.
};

/// The ranks of the sample whose keys are looked for, each by a warp.
enum SampledRank : int { kBetterRank, kMiddleRank, kWorseRank };

/// What the threads of a block share.
template <class Key>
struct SampledBracket {
  Key keys[3];  ///< Of the sample: by SampledRank.
  Bracket<Key> bracket;
};

template <class T>
struct BracketSample {
  using Key = WideKey<T>;
  static constexpr int kSample = kBracketSample<sizeof(T)>;
  static constexpr Key kTop = core::max_key<T>;

  const SelectArguments& args;
  const BracketLayout& layout;
  const T* row;
  SampledBracket<Key>& sampled;
  Key* keys;  ///< Of the sample, in shared memory.

  /// Draws one element from each of equal parts of the row, at a place that has no pattern. All threads of the block call
  /// this, then a barrier, then find_bracket().
  __device__ void draw() const {
    constexpr unsigned kPart = 0x80000000u / (kSample / 2);
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < kSample; i += static_cast<int>(blockDim.x)) {
      const auto number = static_cast<unsigned>(i);
      const unsigned hash = (number + 1) * 0x9e3779b9u;
      const unsigned place = number * kPart + (hash ^ hash >> 15) % kPart;
      keys[i] = directed_key(row[__umulhi(place, static_cast<unsigned>(args.cols))], args.smallest);
    }
  }

  /// Ends with a barrier.
  __device__ void find_bracket() const {
    using Edge = KeyEdge<Key>;
    const int middle = max((layout.better_rank + layout.worse_rank) / 2, 1);
    const auto which = static_cast<SampledRank>(warp_number());
    if (which <= kWorseRank) {
      find_rank(which, which == kBetterRank   ? max(layout.better_rank, 1)
                       : which == kMiddleRank ? middle
                                              : layout.worse_rank);
    }
    __syncthreads();
    if (threadIdx.x == 0 && !sampled.bracket.is_tie) {
      const bool has_better = layout.better_rank >= 1;
      const bool has_worse = layout.worse_rank <= kSample;
      sampled.bracket.worse = has_worse ? Edge{sampled.keys[kWorseRank], true} : Edge{0, false};
      sampled.bracket.better = has_better ? Edge{sampled.keys[kBetterRank], false} : Edge{kTop, true};
      sampled.bracket.usual_high = sampled.keys[kBetterRank];
    }
    __syncthreads();
  }

 private:
  using Warp = LaneGroup<32>;

  /// Finds a key that `rank` keys of the sample reach; more only if some are equal. The middle rank also tells whether
  /// many are. All lanes of a warp call this.
  __device__ void find_rank(SampledRank which, int rank) const {
    constexpr int kOfLane = kSample / 32;
    constexpr int kTies = kOfLane;
    Key own[kOfLane];
    Key low = kTop;
    Key high = 0;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      own[i] = keys[i * 32 + lane_number()];
      low = min(low, own[i]);
      high = max(high, own[i]);
    }
    low = Warp::least(low);
    high = Warp::greatest(high);
    const auto reaching = [&](Key threshold) {
      int mine[2] = {0, 0};
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) mine[i % 2] += own[i] >= threshold ? 1 : 0;
      return Warp::sum(mine[0] + mine[1]);
    };
#pragma unroll 1
    while (low < high) {
      const Key next = low + (high - low) / 2 + 1;
      const int reach = reaching(next);
      low = reach >= rank ? next : low;
      high = reach > rank ? high : reach == rank ? next : next - 1;
    }
    if (lane_number() == 0) sampled.keys[which] = low;
    if (which != kMiddleRank) return;
    const bool is_tie = reaching(low) - (low == kTop ? 0 : reaching(low + 1)) >= kTies;
    if (lane_number() == 0) sampled.bracket = {{low, false}, {low, true}, low, is_tie};
  }
};

}  // namespace rtopk::cuda
