// The exact search for the kth value among a row's candidates, over directed keys, by one warp. For cuda_filter.
#pragma once

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/counting_search.cuh"
#include "cuda/select/element.cuh"
#include "cuda/select/filter_key.cuh"

namespace rtopk::cuda {

/// Which keys are selected: those above `edge`, and the first `quota` equal to it.
template <class Key>
struct CandidateThreshold {
  Key edge;
  int quota;
  int passes;

  /// A lower bound of the selected keys.
  [[nodiscard]] __device__ Key least() const { return quota > 0 ? edge : edge + 1; }
};

/// Distances between keys, for estimates.
template <class Key>
using KeyDistance = std::conditional_t<sizeof(Key) == 8, double, float>;

/// The key at `distance` above `key` (below it if negative), clamped to the bounds.
template <class Key>
__device__ Key stepped(Key key, KeyDistance<Key> distance, Key least, Key greatest) {
  if (distance < 0) {
    const bool inside = key > least && -distance < static_cast<KeyDistance<Key>>(key - least);
    return inside ? min(key - min(static_cast<Key>(-distance), key - least), greatest) : least;
  }
  const bool inside = key < greatest && distance < static_cast<KeyDistance<Key>>(greatest - key);
  return inside ? max(key + min(static_cast<Key>(distance), greatest - key), least) : greatest;
}

template <class Key>
__device__ KeyDistance<Key> distance(Key from, Key to) {
  using Distance = KeyDistance<Key>;
  return to >= from ? static_cast<Distance>(to - from) : -static_cast<Distance>(from - to);
}

/// Two instructions; the compiler would make three.
__device__ inline void count_if_at_least(std::uint32_t key, std::uint32_t threshold, int& count) {
  asm("{ .reg .pred p; setp.ge.u32 p, %1, %2; @p add.s32 %0, %0, 1; }" : "+r"(count) : "r"(key), "r"(threshold));
}
__device__ inline void count_if_at_least(std::uint64_t key, std::uint64_t threshold, int& count) {
  asm("{ .reg .pred p; setp.ge.u64 p, %1, %2; @p add.s32 %0, %0, 1; }" : "+r"(count) : "l"(key), "l"(threshold));
}

/// Up to 32 * R keys, R in each lane. Missing ones are 0.
template <class T, int R>
struct KeysInRegisters {
  using Element = T;
  using Key = typename FilterKey<T>::Key;
  Key keys[R];

  KeysInRegisters() = default;
  /// Reads past the last element too; what it reads there is not used.
  __device__ KeysInRegisters(const T* raw, int number, bool smallest) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    raw += lane;
    number -= lane;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Key key = FilterKey<T>::of(raw[r * 32], smallest);
      keys[r] = r * 32 < number ? key : Key{0};
    }
  }

  /// Keys at or above `threshold`, which is not 0.
  __device__ int count(Key threshold) const {
    int mine[2] = {0, 0};
#pragma unroll
    for (int r = 0; r < R; ++r) count_if_at_least(keys[r], threshold, mine[r % 2]);
    return LaneGroup<32>::sum(mine[0] + mine[1]);
  }

  __device__ Key greatest_up_to(Key bound) const {
    Key greatest = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) greatest = keys[r] <= bound && keys[r] > greatest ? keys[r] : greatest;
    return LaneGroup<32>::greatest(greatest);
  }
};

/// Any number of keys, made again in each pass.
template <class T>
struct KeysInMemory {
  using Element = T;
  using Key = typename FilterKey<T>::Key;
  const T* raw;
  int number;
  bool smallest;

  __device__ KeysInMemory(const T* elements, int how_many, bool of_smallest)
      : raw(elements), number(how_many), smallest(of_smallest) {}

  __device__ int count(Key threshold) const {
    int mine = 0;
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.x % 32); i < number; i += 32) {
      mine += FilterKey<T>::of(raw[i], smallest) >= threshold ? 1 : 0;
    }
    return LaneGroup<32>::sum(mine);
  }

  __device__ Key greatest_up_to(Key bound) const {
    Key greatest = 0;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x % 32); i < number; i += 32) {
      const Key key = FilterKey<T>::of(raw[i], smallest);
      greatest = key <= bound && key > greatest ? key : greatest;
    }
    return LaneGroup<32>::greatest(greatest);
  }
};

/// The kth value of `number` >= k keys, all at or above `floor`. `step`: the distance from one rank to the next near
/// the kth value; 0 if unknown.
template <class Keys, class Key = typename Keys::Key>
__device__ CandidateThreshold<Key> find_kth(const Keys& keys, int number, int k, Key floor, KeyDistance<Key> step) {
  constexpr int kSteps = 3;  ///< Passes that rely on `step`.
  constexpr int kUsual = 4;  ///< Passes that step or interpolate. Later ones also use two steps that always end.
  const auto exactly_at = [](Key threshold, int quota, int passes) {
    return threshold > 0 ? CandidateThreshold<Key>{threshold - 1, 0, passes}
                         : CandidateThreshold<Key>{0, quota, passes};
  };
  int passes = 0;
  // Invariant: at least k keys reach `low`, and fewer than k are above `high`.
  Key low = floor;
  int at_low = number;
  if (at_low == k) return exactly_at(low, k, passes);
  Key high = step > 0 ? Key{FilterKey<typename Keys::Element>::kGreatest} : keys.greatest_up_to(~Key{0});
  int above_high = 0;
  Key at = low;
  int off = at_low - k;
#pragma unroll 1
  while (low < high) {
    Key next;
    bool is_neighbour = false;
    if (step > 0 && passes < kSteps) {
      next = stepped(at, static_cast<KeyDistance<Key>>(off) * step, low + 1, high);
    } else if (passes < kUsual || passes % 3 == 0) {
      if (above_high == 0) high = keys.greatest_up_to(high);
      const float share = static_cast<float>(at_low - k) * reciprocal(static_cast<float>(at_low - above_high));
      next =
          stepped(low, static_cast<KeyDistance<Key>>(high - low) * static_cast<KeyDistance<Key>>(share), low + 1, high);
    } else if (passes % 3 == 1) {
      next = keys.greatest_up_to(high);
      if (next <= low) break;  // nothing in between: `low` itself is the kth value
      is_neighbour = true;
    } else {
      next = low + (high - low) / 2 + 1;
    }
    const int reaching = keys.count(next);
    ++passes;
    if (reaching == k) return exactly_at(next, k, passes);
    at = next;
    off = reaching - k;
    if (off > 0) {
      low = next;
      at_low = reaching;
      if (is_neighbour) break;
    } else {
      high = next - 1;
      above_high = reaching;
    }
  }
  return {low, k - above_high, passes};
}

/// The same for raw elements in shared memory. Not inlined, so that the keys can use all registers.
template <class T, int R>
__device__ __noinline__ CandidateThreshold<typename FilterKey<T>::Key> kth_of(
    const T* raw, int number, int k, bool smallest, typename FilterKey<T>::Key floor,
    KeyDistance<typename FilterKey<T>::Key> step) {
  if constexpr (R == 0) {
    return find_kth(KeysInMemory<T>(raw, number, smallest), number, k, floor, step);
  } else {
    return find_kth(KeysInRegisters<T, R>(raw, number, smallest), number, k, floor, step);
  }
}

}  // namespace rtopk::cuda
