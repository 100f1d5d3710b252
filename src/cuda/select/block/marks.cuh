// Marks of a thread's elements: one bit each, 32 to a word, the first element's in the highest bit.
#pragma once

#include <cstdint>

#include "core/keys.hpp"
#include "cuda/select/element.cuh"
#include "plan/select/tuning_block.hpp"

namespace rtopk::cuda {

/// Compares a chunk with one bound, or with two at a time. A comparison is "at most", which is false for NaN. One element
/// a word.
template <class T>
struct BlockChunk {
  using Key = core::KeyOf<T>;
  using Bound = typename Element<T>::Value;
  static constexpr int kMarkWords = 1;

  static __device__ Bound bound(Key key) { return core::value_of<T>(key); }

  template <bool kTwo>
  static __device__ void at_most(std::uint32_t from, Bound a, Bound b, unsigned (&of_a)[1], unsigned (&of_b)[1]) {
    // A comparison gives 1 or 0 as a float, and a multiplication by a power of two moves it to its bit in the mantissa
    // of a sum: the two run on different pipes on sm_90.
    constexpr int kBits = 16;  // of a sum that starts at 2^23, where the mantissa is an integer
    float sums_a[2];
    float sums_b[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sums_a[half] = 8388608.0f;
      sums_b[half] = 8388608.0f;
#pragma unroll
      for (int j = 0; j < kBits; ++j) {
        const Bound x = load(from + static_cast<std::uint32_t>((half * kBits + j) * sizeof(T)));
        const auto power = static_cast<float>(1 << (kBits - 1 - j));
        sums_a[half] = fmaf(one_if_at_most(x, a), power, sums_a[half]);
        if constexpr (kTwo) sums_b[half] = fmaf(one_if_at_most(x, b), power, sums_b[half]);
      }
    }
    // The lower halves of two sums make one word.
    of_a[0] = __byte_perm(__float_as_uint(sums_a[1]), __float_as_uint(sums_a[0]), 0x5410);
    of_b[0] = __byte_perm(__float_as_uint(sums_b[1]), __float_as_uint(sums_b[0]), 0x5410);
  }

 private:
  static __device__ float load_as(std::uint32_t from, float) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
  }
  static __device__ double load_as(std::uint32_t from, double) {
    double x;
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(from) : "memory");
    return x;
  }
  static __device__ std::int32_t load_as(std::uint32_t from, std::int32_t) {
    std::int32_t x;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
  }
  static __device__ Bound load(std::uint32_t from) { return load_as(from, Bound{}); }

  static __device__ float one_if_at_most(float x, float bound) {
    float one;
    asm("set.le.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(x), "f"(bound));
    return one;
  }
  static __device__ float one_if_at_most(double x, double bound) {
    float one;
    asm("set.le.f32.f64 %0, %1, %2;" : "=f"(one) : "d"(x), "d"(bound));
    return one;
  }
  static __device__ float one_if_at_most(std::int32_t x, std::int32_t bound) {
    float one;
    asm("set.le.f32.s32 %0, %1, %2;" : "=f"(one) : "r"(x), "r"(bound));
    return one;
  }
};

/// Two elements a word, compared by one instruction.
template <class T>
struct BlockPairs {
  using Key = core::KeyOf<T>;
  using Bound = unsigned;  ///< Twice the same.
  static constexpr int kMarkWords = 2;

  static __device__ Bound bound(Key key) { return core::value_of<T>(key).bits * 0x00010001u; }

  template <bool kTwo>
  static __device__ void at_most(std::uint32_t from, Bound a, Bound b, unsigned (&of_a)[2], unsigned (&of_b)[2]) {
    // The elements of the first 16 words go to the upper halves of registers, those of the others to the lower ones.
    unsigned halves_a[2] = {};
    unsigned halves_b[2] = {};
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const unsigned first = load(from + static_cast<std::uint32_t>(4 * i));
      const unsigned second = load(from + static_cast<std::uint32_t>(4 * (16 + i)));
      const unsigned low = __byte_perm(second, first, 0x5410);
      const unsigned high = __byte_perm(second, first, 0x7632);
      const unsigned bit = 0x80008000u >> (2 * i % 16);
      halves_a[i / 8] |= at_most(low, a) & bit;
      if constexpr (kTwo) halves_b[i / 8] |= at_most(low, b) & bit;
      halves_a[i / 8] |= at_most(high, a) & bit >> 1;
      if constexpr (kTwo) halves_b[i / 8] |= at_most(high, b) & bit >> 1;
    }
    of_a[0] = __byte_perm(halves_a[1], halves_a[0], 0x7632);
    of_a[1] = __byte_perm(halves_a[1], halves_a[0], 0x5410);
    of_b[0] = __byte_perm(halves_b[1], halves_b[0], 0x7632);
    of_b[1] = __byte_perm(halves_b[1], halves_b[0], 0x5410);
  }

 private:
  static __device__ unsigned load(std::uint32_t from) {
    unsigned x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
  }
  static __device__ unsigned at_most(unsigned x, unsigned bound) {
    if constexpr (std::is_same_v<T, core::F16>) {
      return __hle2_mask(*reinterpret_cast<const half2*>(&x), *reinterpret_cast<const half2*>(&bound));
    } else {
      return __hle2_mask(*reinterpret_cast<const __nv_bfloat162*>(&x),
                         *reinterpret_cast<const __nv_bfloat162*>(&bound));
    }
  }
};

template <>
struct BlockChunk<core::F16> : BlockPairs<core::F16> {};
template <>
struct BlockChunk<core::BF16> : BlockPairs<core::BF16> {};

/// Marks of the first `number` of 32 elements; it may be out of range.
__device__ inline unsigned first_marks(int number) { return number <= 0 ? 0u : number >= 32 ? ~0u : ~(~0u >> number); }

/// Marks the elements at or above a threshold, which is a directed key.
template <class T>
class MarkingThreshold {
 public:
  using Chunk = BlockChunk<T>;
  using Key = core::KeyOf<T>;

  /// `next`: of the key after this one; there is none after the greatest, which no element reaches.
  __device__ MarkingThreshold(Key key, bool next, bool smallest)
      : flip_(smallest ? 0u : ~0u), all_(key == 0 && !next), none_(key == core::max_key<T> && next) {
    // For the largest, "at or above" is "not at most the next lower value", which is true for NaN too.
    constexpr Key top = core::max_key<T>;
    const int step = next ? 1 : 0;
    const auto below = static_cast<Key>(all_ ? 0 : key - 1 + step);
    const auto above = static_cast<Key>(none_ ? 0 : top - key - step);
    bound_ = Chunk::bound(smallest ? above : below);
  }

  [[nodiscard]] __device__ typename Chunk::Bound bound() const { return bound_; }
  /// From marks of the elements at most the bound.
  [[nodiscard]] __device__ unsigned marks(unsigned at_most) const { return all_ ? ~0u : none_ ? 0u : at_most ^ flip_; }

 private:
  typename Chunk::Bound bound_;
  unsigned flip_;
  bool all_;
  bool none_;
};

}  // namespace rtopk::cuda
