// Operations of G neighbouring lanes of a warp; G is a power of two up to 32. All 32 lanes take part in every call, and
// each group gets its own result.
#pragma once

#include <cstdint>
#include <type_traits>

namespace rtopk::cuda {

inline constexpr unsigned kFullWarp = 0xffffffffu;

/// Returns `x`, but hides its value from the compiler: what depends on it is computed after this, neither earlier nor
/// in another way.
template <class X>
__device__ X opaque(X x) {
  if constexpr (sizeof(X) == 8) {
    if constexpr (std::is_pointer_v<X>) {
      asm volatile("" : "+l"(x));
    } else {
      asm volatile("" : "+d"(x));
    }
  } else if constexpr (std::is_floating_point_v<X>) {
    asm volatile("" : "+f"(x));
  } else {
    asm volatile("" : "+r"(x));
  }
  return x;
}

template <int G>
struct LaneGroup {
  static constexpr int kLanes = G;

  static __device__ int lane() { return static_cast<int>(threadIdx.x % G); }
  static __device__ int index_in_warp() { return static_cast<int>(threadIdx.x % 32) / G; }
  static __device__ unsigned members() {
    if constexpr (G == 32) {
      return kFullWarp;
    } else {
      return ((1u << G) - 1u) << (index_in_warp() * G);
    }
  }

  static __device__ int sum(int x) {
    if constexpr (G == 32) {
      return __reduce_add_sync(kFullWarp, x);
    } else {
#pragma unroll
      for (int distance = G / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(kFullWarp, x, distance);
      return x;
    }
  }
  template <class Real>
  static __device__ Real sum_reals(Real x) {
#pragma unroll
    for (int distance = G / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(kFullWarp, x, distance);
    return x;
  }
  template <class X>
  static __device__ X least(X x) {
    if constexpr (G == 32 && std::is_same_v<X, std::uint32_t>) {
      return __reduce_min_sync(kFullWarp, x);
    } else {
#pragma unroll
      for (int distance = G / 2; distance > 0; distance /= 2) {
        const X other = __shfl_xor_sync(kFullWarp, x, distance);
        x = other < x ? other : x;
      }
      return x;
    }
  }
  template <class X>
  static __device__ X greatest(X x) {
    if constexpr (G == 32 && std::is_same_v<X, std::uint32_t>) {
      return __reduce_max_sync(kFullWarp, x);
    } else {
#pragma unroll
      for (int distance = G / 2; distance > 0; distance /= 2) {
        const X other = __shfl_xor_sync(kFullWarp, x, distance);
        x = other > x ? other : x;
      }
      return x;
    }
  }
  /// The sum over this lane and those before it.
  static __device__ std::uint32_t inclusive_sum(std::uint32_t x) {
#pragma unroll
    for (int distance = 1; distance < G; distance *= 2) {
      // The shuffle itself tells whether there is a lane that far below, which saves a comparison.
      asm volatile(
          "{ .reg .u32 below; .reg .pred exists; shfl.sync.up.b32 below|exists, %0, %1, %2, 0xffffffff;"
          " @exists add.u32 %0, %0, below; }"
          : "+r"(x)
          : "r"(distance), "n"((32 - G) << 8));
    }
    return x;
  }
  template <class X>
  static __device__ X from_lane(X x, int source) {
    if constexpr (G == 1) return x;
    return __shfl_sync(kFullWarp, x, source, G);
  }
  static __device__ unsigned vote(bool x) { return __ballot_sync(kFullWarp, x) & members(); }

  /// Sorts G * C keys, largest first; rank r ends up in keys[r % C] of lane r / C. Each lane sorts its own keys. Then a
  /// bitonic network merges them, in the form in which every exchange leaves the larger key at the lower rank.
  template <int C, class Key>
  static __device__ void sort_descending(Key (&keys)[C]) {
    sort_own(keys);
#pragma unroll
    for (int size = 2 * C; size <= G * C; size *= 2) {
      exchange_with_mirror_image(keys, size);
#pragma unroll
      for (int stride = size / 4; stride > 0; stride /= 2) exchange(keys, stride);
    }
  }

  /// Sorts G * C keys of which every two halves were exchanged with their mirror images, as by the first step of a merge.
  template <int C, class Key>
  static __device__ void merge_descending(Key (&keys)[C]) {
#pragma unroll
    for (int stride = G * C / 2; stride > 0; stride /= 2) exchange(keys, stride);
  }

  /// Sorts each lane's own keys, largest first. Batcher's odd-even merge sort: 63 exchanges for 16 keys; a bitonic network has 80.
  template <int C, class Key>
  static __device__ void sort_own(Key (&keys)[C]) {
#pragma unroll
    for (int run = 1; run < C; run *= 2) {
#pragma unroll
      for (int step = run; step > 0; step /= 2) {
#pragma unroll
        for (int i = 0; i < C; ++i) {
          const bool is_first = i >= step % run && (i - step % run) / step % 2 == 0;
          const int partner = i + step;
          if (is_first && partner < C && i / (2 * run) == partner / (2 * run)) order(keys[i], keys[partner]);
        }
      }
    }
  }

  /// The key of a rank, the best being 0, of sorted ones.
  template <int C, class Key>
  static __device__ Key at_rank(const Key (&keys)[C], int rank) {
    Key found = from_lane(keys[0], rank / C);
#pragma unroll
    for (int j = 1; j < C; ++j) {
      const Key other = from_lane(keys[j], rank / C);
      if (rank % C == j) found = other;
    }
    return found;
  }

 private:
  template <class Key>
  static __device__ Key pick(bool greater, Key a, Key b) {
    return greater ? (a > b ? a : b) : (a < b ? a : b);
  }

  template <class Key>
  static __device__ void order(Key& first, Key& second) {
    const Key a = first;
    const Key b = second;
    first = a > b ? a : b;
    second = a > b ? b : a;
  }

  /// Compares rank r with r ^ (size - 1), which another lane has.
  template <int C, class Key>
  static __device__ void exchange_with_mirror_image(Key (&keys)[C], int size) {
    const bool keeps_greater = (lane() & (size / C / 2)) == 0;
    Key others[C];
#pragma unroll
    for (int j = 0; j < C; ++j) others[j] = __shfl_xor_sync(kFullWarp, keys[C - 1 - j], size / C - 1);
#pragma unroll
    for (int j = 0; j < C; ++j) keys[j] = pick(keeps_greater, keys[j], others[j]);
  }

  /// Compares rank r with r ^ stride.
  template <int C, class Key>
  static __device__ void exchange(Key (&keys)[C], int stride) {
    if (stride < C) {
#pragma unroll
      for (int j = 0; j < C; ++j) {
        const int partner = j ^ stride;
        if (partner > j) order(keys[j], keys[partner]);
      }
    } else {
      const bool keeps_greater = (lane() & (stride / C)) == 0;
#pragma unroll
      for (int j = 0; j < C; ++j) {
        const Key other = __shfl_xor_sync(kFullWarp, keys[j], stride / C);
        keys[j] = pick(keeps_greater, keys[j], other);
      }
    }
  }
};

}  // namespace rtopk::cuda
