// The extremes of a row in shared memory, or of a block's part of one, for searches that stop early.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block/row.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/early_stop.cuh"
#include "cuda/select/element.cuh"

namespace rtopk::cuda {

/// A thread's extremes as elements. If there is a NaN among them, both are NaN.
template <class T>
struct ElementExtent {
  T least;
  T greatest;
};

template <class T>
__device__ ElementExtent<T> extent_of_own_elements(const BlockRow<T>& row) {
  using E = Element<T>;
  auto least = E::value(row.elements()[row.begin()]);
  auto greatest = least;
#pragma unroll 4
  for (int i = row.begin() + static_cast<int>(threadIdx.x); i < row.end(); i += static_cast<int>(blockDim.x)) {
    const auto x = E::value(row.elements()[i]);
    least = E::lesser_or_nan(least, x);
    greatest = E::greater_or_nan(greatest, x);
  }
  return {least, greatest};
}

/// The same of 16 bits, two elements at a time: extremes of the even and of the odd elements.
template <class T>
__device__ ElementExtent<ushort2> extent_of_own_pairs(const BlockRow<T>& row) {
  using Pair = std::conditional_t<std::is_same_v<T, core::F16>, __half2, __nv_bfloat162>;
  const auto pair_of = [](unsigned bits) { return *reinterpret_cast<const Pair*>(&bits); };
  const auto halves_of = [](Pair pair) { return *reinterpret_cast<const ushort2*>(&pair); };
  // The ends of the row may be in words with elements of other rows.
  Pair least = pair_of(row.elements()[row.begin()].bits | unsigned{row.elements()[row.end() - 1].bits} << 16);
  Pair greatest = least;
  const auto* words = reinterpret_cast<const unsigned*>(row.elements());
#pragma unroll 4
  for (int i = (row.begin() + 1) / 2 + static_cast<int>(threadIdx.x); i < row.end() / 2;
       i += static_cast<int>(blockDim.x)) {
    const Pair x = pair_of(words[i]);
    least = __hmin2_nan(least, x);
    greatest = __hmax2_nan(greatest, x);
  }
  return {halves_of(least), halves_of(greatest)};
}

/// All threads call this. `extent`: in shared memory, {top, 0} before a barrier; valid after the next one.
template <class T>
__device__ void measure(const BlockRow<T>& row, bool smallest, RowExtent<WideKey<T>>& extent) {
  using Key = WideKey<T>;
  using Warp = LaneGroup<32>;
  Key least;
  Key greatest;  // NaN's, if there is one
  if constexpr (sizeof(T) == 2) {
    const ElementExtent<ushort2> pairs = extent_of_own_pairs(row);
    const auto key_of = [](unsigned short bits) { return Key{core::key_of(T{bits})}; };
    least = min(key_of(pairs.least.x), key_of(pairs.least.y));
    greatest = max(key_of(pairs.greatest.x), key_of(pairs.greatest.y));
  } else {
    const ElementExtent<T> own = extent_of_own_elements(row);
    least = core::key_of(own.least);
    greatest = core::key_of(own.greatest);
  }
  least = Warp::least(least);
  greatest = Warp::greatest(greatest);
  if (lane_number() != 0) return;
  using Word = std::conditional_t<sizeof(Key) == 8, unsigned long long, unsigned>;  // that CUDA has atomics for
  constexpr Key kTop = core::max_key<T>;
  atomicMin(reinterpret_cast<Word*>(&extent.least), static_cast<Word>(smallest ? kTop - greatest : least));
  atomicMax(reinterpret_cast<Word*>(&extent.greatest), static_cast<Word>(smallest ? kTop - least : greatest));
}

}  // namespace rtopk::cuda
