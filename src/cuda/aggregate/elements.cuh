// Loads and stores of values, selectors and results in an aggregation: V neighbours at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "core/keys.hpp"
#include "cuda/runtime/as_float.cuh"

namespace rtopk::cuda {

template <class X, int V>
struct alignas(sizeof(X) * V) Several {
  X each[V];
};

/// The type of one access of 1, 2, 4, 8 or 16 bytes.
template <int kBytes>
using BitsOf = std::conditional_t<
    kBytes == 16, uint4,
    std::conditional_t<
        kBytes == 8, uint2,
        std::conditional_t<kBytes == 4, unsigned, std::conditional_t<kBytes == 2, unsigned short, unsigned char>>>>;

/// Loads V elements from an address that is a multiple of their size.
template <int V, class X>
__device__ Several<X, V> load_several(const X* from) {
  using Bits = BitsOf<static_cast<int>(sizeof(X)) * V>;
  union {
    Bits bits;
    Several<X, V> several;
  } loaded;
  loaded.bits = __ldg(reinterpret_cast<const Bits*>(from));
  return loaded.several;
}

/// Stores V elements to an address that is a multiple of their size. They need not stay in a cache.
template <int V, class X>
__device__ void store_several(X* to, const Several<X, V>& several) {
  using Bits = BitsOf<static_cast<int>(sizeof(X)) * V>;
  union {
    Several<X, V> several;
    Bits bits;
  } stored{several};
  __stcs(reinterpret_cast<Bits*>(to), stored.bits);
}

template <class T>
__device__ T rounded(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else if constexpr (std::is_same_v<T, core::F16>) {
    return {__half_as_ushort(__float2half_rn(x))};
  } else {
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
  }
}

}  // namespace rtopk::cuda
