// The filter threshold of cuda_filter: which elements of a line are candidates.
//
// A filter threshold is a directed key. Elements are compared as raw values if that gives the same result, which it
// nearly always does.
#pragma once

#include "cuda/select/element.cuh"
#include "cuda/select/filter_key.cuh"
#include "plan/select/tuning_filter.hpp"

namespace rtopk::cuda {

/// The elements of a lane.
template <class T>
struct FilterLine {
  std::uint32_t words[4 * FilterConfig<T>::kLineVectors];

  __device__ void set(int vector, uint4 bits) {
    words[4 * vector] = bits.x;
    words[4 * vector + 1] = bits.y;
    words[4 * vector + 2] = bits.z;
    words[4 * vector + 3] = bits.w;
  }
  __device__ T raw(int j) const {
    using Bits = core::KeyOf<T>;
    if constexpr (sizeof(T) == 8) {
      return std::bit_cast<T>(words[2 * j] | static_cast<Bits>(words[2 * j + 1]) << 32);
    } else if constexpr (sizeof(T) == 4) {
      return std::bit_cast<T>(words[j]);
    } else {
      return std::bit_cast<T>(static_cast<Bits>(words[j / 2] >> (j % 2 * 16)));
    }
  }
};

template <class T>
struct FilterThreshold {
  using Key = typename FilterKey<T>::Key;
  using E = Element<T>;
  using Value = typename E::Value;
  using Line = FilterLine<T>;
  using Config = FilterConfig<T>;
  static constexpr int kWords = Config::kWords;

  enum class Way : std::int32_t { raw, by_key, closed };

  Key key = 0;
  T threshold = {};       ///< The value of the key.
  Way way = Way::by_key;  ///< How to compare. Closed: no element reaches the threshold.

  /// Raw comparisons with NaN are true for the largest and false for the smallest. So every threshold can be compared
  /// raw unless its value is NaN: then only NaN reaches it, or all but NaN do, or its key belongs to no value.
  static __device__ FilterThreshold at(Key key, bool smallest) {
    const T threshold = FilterKey<T>::value(key, smallest);
    return {key, threshold, E::is_nan(E::value(threshold)) ? Way::by_key : Way::raw};
  }
  /// The filter threshold just above a key.
  static __device__ FilterThreshold above(Key edge, bool smallest) {
    if (edge == FilterKey<T>::kGreatest) return {edge, T{}, Way::closed};
    return at(edge + 1, smallest);
  }

  /// True if an element reaches a threshold, compared as raw values.
  template <bool kSmallest>
  static __device__ bool reaches(T element, T threshold) {
    if constexpr (kSmallest) {
      return E::value(element) <= E::value(threshold);
    } else {
      return !(E::value(element) < E::value(threshold));
    }
  }

  /// Sets a bit for each element of a line that reaches the filter threshold, which must be raw.
  __device__ void mark(const Line& line, bool smallest, unsigned (&marks)[kWords]) const {
    if (smallest) return mark_raw<true>(line, threshold, marks);
    mark_raw<false>(line, threshold, marks);
  }

 private:
  template <bool kSmallest>
  static __device__ void mark_raw(const Line& line, T threshold, unsigned (&marks)[kWords]) {
    if constexpr (std::is_same_v<T, float>) {
      // Sets bits of a float's mantissa by multiplying and adding, because comparisons and floating-point operations
      // run on different pipes. The sum starts at 2^23, where the mantissa is an integer.
      static_assert(Config::kLine == 32);
      float halves[2] = {8388608.0f, 8388608.0f};
#pragma unroll
      for (int j = 0; j < 32; ++j) {
        float one;
        if constexpr (kSmallest) {
          asm("set.le.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(line.raw(j)), "f"(threshold));
        } else {
          asm("set.geu.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(line.raw(j)), "f"(threshold));
        }
        halves[j / 16] = fmaf(one, static_cast<float>(1 << (j % 16)), halves[j / 16]);
      }
      marks[0] = __byte_perm(__float_as_uint(halves[0]), __float_as_uint(halves[1]), 0x5410);
    } else if constexpr (sizeof(T) == 2) {
      const unsigned both = threshold.bits * 0x10001u;
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        unsigned pairs = 0;  // of neighbours: the first in the lower half
#pragma unroll
        for (int j = 0; j < 16; ++j) pairs |= reaching<kSmallest>(line.words[16 * word + j], both) & (0x10001u << j);
        marks[word] = spread(pairs & 0xffffu) | spread(pairs >> 16) << 1;
      }
    } else {
#pragma unroll
      for (int word = 0; word < kWords; ++word) marks[word] = 0;
#pragma unroll
      for (int j = 0; j < Config::kLine; ++j) {
        const bool reaches = FilterThreshold::reaches<kSmallest>(line.raw(j), threshold);
        marks[j / 32] |= reaches ? 1u << (j % 32) : 0u;
      }
    }
  }

  /// All bits of each half that reaches the threshold.
  template <bool kSmallest>
  static __device__ unsigned reaching(unsigned pair, unsigned threshold) {
    if constexpr (std::is_same_v<T, core::F16>) {
      const __half2 x = *reinterpret_cast<const __half2*>(&pair);
      const __half2 t = *reinterpret_cast<const __half2*>(&threshold);
      return kSmallest ? __hle2_mask(x, t) : __hgeu2_mask(x, t);
    } else {
      const __nv_bfloat162 x = *reinterpret_cast<const __nv_bfloat162*>(&pair);
      const __nv_bfloat162 t = *reinterpret_cast<const __nv_bfloat162*>(&threshold);
      return kSmallest ? __hle2_mask(x, t) : __hgeu2_mask(x, t);
    }
  }

  /// Moves bit j of 16 to bit 2 j.
  static __device__ unsigned spread(unsigned x) {
    x = (x | x << 8) & 0x00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0fu;
    x = (x | x << 2) & 0x33333333u;
    return (x | x << 1) & 0x55555555u;
  }
};

}  // namespace rtopk::cuda
