// The extremes of a row, for searches that stop early: each thread has those of its own elements.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/early_stop.cuh"
#include "cuda/select/element.cuh"
#include "cuda/select/row_vectors.cuh"

namespace rtopk::cuda {

/// Extremes of elements that come one by one, or a vector of 16 bytes at a time. With a NaN, both are NaN.
template <class T>
class Extremes {
 public:
  __device__ void add(T raw) {
    const auto x = E::value(raw);
    least_ = E::lesser_or_nan(least_, x);
    greatest_ = E::greater_or_nan(greatest_, x);
  }
  __device__ void add(const uint4& vector) {
    const auto* raw = reinterpret_cast<const T*>(&vector);
#pragma unroll
    for (int j = 0; j < Vector<T>::kSize; ++j) add(raw[j]);
  }

  [[nodiscard]] __device__ WideKey<T> least() const { return core::key_of(least_); }
  [[nodiscard]] __device__ WideKey<T> greatest() const { return core::key_of(greatest_); }

 private:
  using E = Element<T>;
  typename E::Value least_ = E::greatest();
  typename E::Value greatest_ = E::least();
};

/// 16 bits: two elements at a time. There are extremes of those in the upper halves of words, and of the others.
template <class T>
class PairExtremes {
 public:
  __device__ void add(T raw) { add(twice(raw)); }
  __device__ void add(const uint4& vector) {
    add(vector.x);
    add(vector.y);
    add(vector.z);
    add(vector.w);
  }

  [[nodiscard]] __device__ WideKey<T> least() const { return min(low_key(least_), high_key(least_)); }
  [[nodiscard]] __device__ WideKey<T> greatest() const { return max(low_key(greatest_), high_key(greatest_)); }

 private:
  using Pair = std::conditional_t<std::is_same_v<T, core::F16>, __half2, __nv_bfloat162>;

  static __device__ unsigned bits_of(Pair pair) { return *reinterpret_cast<const unsigned*>(&pair); }
  static __device__ WideKey<T> low_key(Pair pair) { return core::key_of(T{static_cast<std::uint16_t>(bits_of(pair))}); }
  static __device__ WideKey<T> high_key(Pair pair) {
    return core::key_of(T{static_cast<std::uint16_t>(bits_of(pair) >> 16)});
  }
  static __device__ Pair pair_of(unsigned bits) { return *reinterpret_cast<const Pair*>(&bits); }
  static __device__ unsigned twice(T raw) { return raw.bits * 0x00010001u; }
  __device__ void add(unsigned two) {
    least_ = __hmin2_nan(least_, pair_of(two));
    greatest_ = __hmax2_nan(greatest_, pair_of(two));
  }

  static constexpr unsigned kInfinities = core::ElementTraits<T>::infinity_bits * 0x00010001u;
  Pair least_ = pair_of(kInfinities);
  Pair greatest_ = pair_of(kInfinities | 0x80008000u);
};

template <class T>
using ExtremesOf = std::conditional_t<sizeof(T) == 2, PairExtremes<T>, Extremes<T>>;

/// All lanes of a warp call this with the extremes of their elements. `extent`: in shared memory, {top, 0} before a
/// barrier; valid after the next one.
template <class T>
__device__ void widen(RowExtent<WideKey<T>>& extent, const ExtremesOf<T>& own, bool smallest) {
  using Key = WideKey<T>;
  using Warp = LaneGroup<32>;
  const Key least = Warp::least(own.least());
  const Key greatest = Warp::greatest(own.greatest());
  if (lane_number() != 0) return;
  using Word = std::conditional_t<sizeof(Key) == 8, unsigned long long, unsigned>;  // that CUDA has atomics for
  constexpr Key kTop = core::max_key<T>;
  atomicMin(reinterpret_cast<Word*>(&extent.least), static_cast<Word>(smallest ? kTop - greatest : least));
  atomicMax(reinterpret_cast<Word*>(&extent.greatest), static_cast<Word>(smallest ? kTop - least : greatest));
}

}  // namespace rtopk::cuda
