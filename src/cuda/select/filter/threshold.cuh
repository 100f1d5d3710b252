// The bar of cuda_filter: which elements of a line are candidates.
//
// A bar is a directed key. Elements are compared raw where that says the same, which is nearly always.
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
  Way way = Way::by_key;  ///< In which to compare. Closed: the bar is above everything.

  /// A comparison with NaN is true if the greatest are wanted, and false if the smallest are. So all bars can be raw but
  /// those that let nothing but NaN pass, or all but NaN, and those that are no value's key.
  static __device__ FilterThreshold at(Key key, bool smallest) {
    const T threshold = FilterKey<T>::value(key, smallest);
    return {key, threshold, E::is_nan(E::value(threshold)) ? Way::by_key : Way::raw};
  }
  /// The bar that is next above a key.
  static __device__ FilterThreshold above(Key edge, bool smallest) {
    if (edge == FilterKey<T>::kGreatest) return {edge, T{}, Way::closed};
    return at(edge + 1, smallest);
  }

  /// Whether an element reaches a threshold; raw.
  template <bool kSmallest>
  static __device__ bool reaches(T element, T threshold) {
    if constexpr (kSmallest) {
      return E::value(element) <= E::value(threshold);
    } else {
      return !(E::value(element) < E::value(threshold));
    }
  }

  /// A bit for each element of a line that reaches the bar, which must be raw.
  __device__ void mark(const Line& line, bool smallest, unsigned (&marks)[kWords]) const {
    if (smallest) return mark_raw<true>(line, threshold, marks);
    mark_raw<false>(line, threshold, marks);
  }

 private:
  template <bool kSmallest>
  static __device__ void mark_raw(const Line& line, T threshold, unsigned (&marks)[kWords]) {
    if constexpr (std::is_same_v<T, float>) {
      // Bits of a number, set by multiplying and adding: a comparison and a floating-point operation run on different
      // pipes. 2^23 has the mantissa to itself.
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

  /// All bits of a half that reaches the threshold.
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

  /// Moves bit j of 16 to 2 j.
  static __device__ unsigned spread(unsigned x) {
    x = (x | x << 8) & 0x00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0fu;
    x = (x | x << 2) & 0x33333333u;
    return (x | x << 1) & 0x55555555u;
  }
};

}  // namespace rtopk::cuda
