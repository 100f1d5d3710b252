// The end of a row's search: ranks the few elements between two thresholds, which is faster than to look for a
// threshold between them.
#pragma once

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/element.cuh"
#include "cuda/select/marks.cuh"

namespace rtopk::cuda {

template <class Row>
class WarpRank {
 public:
  using T = typename Row::Type;
  using Config = typename Row::Config;
  using E = Element<T>;
  using Group = typename Row::Group;
  static constexpr int G = Group::kLanes;
  static constexpr int R = Row::kElements;
  /// What is compared. 16-bit elements leave room for the slot's number, so that no two are equal.
  static constexpr bool kDistinct = sizeof(T) == 2;
  using Slot = std::conditional_t<kDistinct, std::uint32_t, typename E::Value>;
  static constexpr int kRanked = Config::kRanked;

  /// The `number` largest of the elements marked in `between`, of which there are at most kRanked; of equal ones the
  /// first.
  static __device__ Marks<R> best_of(const Row& row, const Marks<R>& between, int number) {
    auto* slots = reinterpret_cast<Slot*>(row.list);
    Slot own[kPerLane];
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) slots[slot(j)] = empty();  // a slot that stays empty is not selected
    const int mine = between.count();
    const int first = static_cast<int>(Group::inclusive_sum(static_cast<unsigned>(mine))) - mine;
    __syncwarp();
    Slot* next = slots + first;
    [[maybe_unused]] std::uint32_t earlier = 0xffffu;
    between.for_each([&](int, int, int r) {
      if constexpr (kDistinct) {
        *next++ = static_cast<std::uint32_t>(row.key_at(r)) << 16 | (earlier-- - static_cast<unsigned>(first));
      } else {
        *next++ = row.value_at(r);
      }
    });
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) own[j] = slots[slot(j)];
    Slot all[kRanked];
    load(slots, all);
    int rank[kPerLane] = {};
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
#pragma unroll
      for (int i = 0; i < kRanked; ++i) rank[j] += all[i] > own[j] ? 1 : 0;
    }
    unsigned best = slots_below(rank, number);
    if (!kDistinct && __any_sync(kFullWarp, __popc(best) != number)) {
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) {
#pragma unroll
        for (int i = 0; i < kRanked; ++i) rank[j] += all[i] == own[j] && i < slot(j) ? 1 : 0;
      }
      best = slots_below(rank, number);
    }
    best >>= first;
    Marks<R> kept = between;
    between.for_each([&](int w, int bit, int) {
      kept.words[w] ^= (~best & 1u) << bit;
      best >>= 1;
    });
    __syncwarp();
    return kept;
  }

 private:
  static constexpr int kPerLane = (kRanked + G - 1) / G;
  static_assert(kRanked <= 32 && G * kPerLane % kRanked == 0);

  static __device__ Slot empty() {
    if constexpr (kDistinct) {
      return 0;
    } else {
      return E::least();
    }
  }

  static __device__ int slot(int j) { return (j * G + Group::lane()) % kRanked; }

  static __device__ void load(const Slot* slots, Slot (&all)[kRanked]) {
    constexpr int kVector = 16 / static_cast<int>(sizeof(Slot));
    union {
      uint4 bits;
      Slot values[kVector];
    } loaded;
#pragma unroll
    for (int i = 0; i < kRanked / kVector; ++i) {
      loaded.bits = reinterpret_cast<const uint4*>(slots)[i];
#pragma unroll
      for (int j = 0; j < kVector; ++j) all[i * kVector + j] = loaded.values[j];
    }
  }

  /// A bit for each of the row's slots whose rank is below `number`.
  static __device__ unsigned slots_below(const int (&rank)[kPerLane], int number) {
    constexpr unsigned kGroup = G >= kRanked ? (1u << (kRanked % 32)) - 1u : (1u << (G % 32)) - 1u;
    unsigned bits = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const unsigned voted = __ballot_sync(kFullWarp, rank[j] < number);
      bits |= (voted >> (Group::index_in_warp() * G) & kGroup) << (j * G);
    }
    return bits;
  }
};

}  // namespace rtopk::cuda
