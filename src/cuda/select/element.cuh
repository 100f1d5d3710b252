// Properties of an element type that the kernels need: the type they search in, comparisons, and sort keys.
//
// Kernels search for the largest elements of a row. For `smallest` a row is negated when it is loaded. NaN, which then
// comes last, becomes the smallest value, so that no fast path can select it. If the kth value itself is such a value,
// the directed keys of core/keys.hpp decide; they are made from the original bits.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstdint>

#include "core/keys.hpp"
#include "cuda/runtime/as_float.cuh"
#include "cuda/select/arguments.hpp"

namespace rtopk::cuda {

template <class T>
struct Element;

/// f32, and the 16-bit types, which are searched as f32.
struct SearchedAsFloat {
  using Value = float;
  using Real = float;  ///< For estimates.
  using SortKey = std::uint32_t;

  static __device__ float least() { return __int_as_float(0xff800000); }
  static __device__ float greatest() { return __int_as_float(0x7f800000); }
  static __device__ bool is_nan(float x) { return x != x; }
  static __device__ bool is_finite(float x) { return fabsf(x) < __int_as_float(0x7f800000); }
  static __device__ float reversed(float x) { return is_nan(x) ? least() : -x; }
  /// NaN is at or above everything.
  static __device__ bool at_least(float x, float threshold) { return !(x < threshold); }
  /// The same as 0 or 1: on sm_90 comparisons and floating-point additions run on different pipes.
  static __device__ float one_if_at_least(float x, float threshold) {
    float one;
    asm("set.geu.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(x), "f"(threshold));
    return one;
  }
  /// Larger for larger values; one key for both zeros and one for all NaNs.
  static __device__ std::uint32_t sort_key(float x) {
    const float canonical = __fadd_rn(x, 0.0f);  // -0 becomes +0, every NaN the one with all bits but the sign set
    const std::int32_t bits = __float_as_int(canonical);
    return static_cast<std::uint32_t>(bits ^ ((bits >> 31) | static_cast<std::int32_t>(0x80000000)));
  }
  static __device__ float from_sort_key(std::uint32_t key) {
    const std::uint32_t bits = (key & 0x80000000u) != 0 ? key ^ 0x80000000u : ~key;
    return __uint_as_float(bits);
  }
  static __device__ float real(float x) { return x; }
  static __device__ float from_real(float x) { return x; }
  /// The element as the paper's algorithms see it, and the least one that reaches a threshold of theirs.
  static __device__ float arithmetic(float x, bool) { return x; }
  static __device__ float reaching(float threshold, bool) { return threshold; }
  static __device__ float lesser_or_nan(float a, float b) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
  }
  static __device__ float greater_or_nan(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
  }
};

template <>
struct Element<float> : SearchedAsFloat {
  static __device__ float value(float raw) { return as_float(raw); }
};

template <>
struct Element<core::F16> : SearchedAsFloat {
  static __device__ float value(core::F16 raw) { return as_float(raw); }
};

template <>
struct Element<core::BF16> : SearchedAsFloat {
  static __device__ float value(core::BF16 raw) { return as_float(raw); }
};

template <>
struct Element<double> {
  using Value = double;
  using Real = double;
  using SortKey = std::uint64_t;

  static __device__ double value(double raw) { return raw; }
  static __device__ double least() { return __longlong_as_double(0xfff0000000000000); }
  static __device__ double greatest() { return __longlong_as_double(0x7ff0000000000000); }
  static __device__ bool is_nan(double x) { return x != x; }
  static __device__ bool is_finite(double x) { return fabs(x) < __longlong_as_double(0x7ff0000000000000); }
  static __device__ double reversed(double x) { return is_nan(x) ? least() : -x; }
  static __device__ bool at_least(double x, double threshold) { return !(x < threshold); }
  static __device__ float one_if_at_least(double x, double threshold) { return at_least(x, threshold) ? 1.0f : 0.0f; }
  static __device__ std::uint64_t sort_key(double x) {
    if (is_nan(x)) return ~std::uint64_t{0};
    const std::int64_t bits = __double_as_longlong(x + 0.0);
    return static_cast<std::uint64_t>(bits ^ ((bits >> 63) | static_cast<std::int64_t>(0x8000000000000000)));
  }
  static __device__ double from_sort_key(std::uint64_t key) {
    const std::uint64_t sign = 0x8000000000000000;
    return __longlong_as_double(static_cast<std::int64_t>((key & sign) != 0 ? key ^ sign : ~key));
  }
  static __device__ double real(double x) { return x; }
  static __device__ double from_real(double x) { return x; }
  static __device__ double arithmetic(double x, bool) { return x; }
  static __device__ double reaching(double threshold, bool) { return threshold; }
  static __device__ double lesser_or_nan(double a, double b) { return is_nan(a) || a < b ? a : b; }
  static __device__ double greater_or_nan(double a, double b) { return is_nan(a) || a > b ? a : b; }
};

template <>
struct Element<std::int32_t> {
  using Value = std::int32_t;
  using Real = float;
  using SortKey = std::uint32_t;

  static __device__ std::int32_t value(std::int32_t raw) { return raw; }
  static __device__ std::int32_t least() { return INT32_MIN; }
  static __device__ std::int32_t greatest() { return INT32_MAX; }
  static __device__ bool is_nan(std::int32_t) { return false; }
  static __device__ bool is_finite(std::int32_t) { return true; }
  static __device__ std::int32_t reversed(std::int32_t x) { return ~x; }
  static __device__ bool at_least(std::int32_t x, std::int32_t threshold) { return x >= threshold; }
  static __device__ float one_if_at_least(std::int32_t x, std::int32_t threshold) {
    return x >= threshold ? 1.0f : 0.0f;
  }
  static __device__ std::uint32_t sort_key(std::int32_t x) { return static_cast<std::uint32_t>(x) ^ 0x80000000u; }
  static __device__ std::int32_t from_sort_key(std::uint32_t key) {
    return static_cast<std::int32_t>(key ^ 0x80000000u);
  }
  static __device__ float real(std::int32_t x) { return static_cast<float>(x); }
  static __device__ std::int32_t from_real(float x) { return __float2int_ru(x); }  // saturates; NaN gives 0
  /// Of a reversed element: minus the original, and x is ~original.
  static __device__ double arithmetic(std::int32_t x, bool smallest) {
    return static_cast<double>(x) + (smallest ? 1.0 : 0.0);
  }
  static __device__ std::int32_t reaching(double threshold, bool smallest) {
    return static_cast<std::int32_t>(__double2ll_ru(threshold) - (smallest ? 1 : 0));
  }
  static __device__ std::int32_t lesser_or_nan(std::int32_t a, std::int32_t b) { return min(a, b); }
  static __device__ std::int32_t greater_or_nan(std::int32_t a, std::int32_t b) { return max(a, b); }
};

/// What stands for an element in comparisons. For an integer, minus its absolute value, which always exists; the
/// direction is then the opposite of what was asked for.
template <class T>
__device__ T compared(T raw, bool magnitude) {
  if (!magnitude) return raw;
  if constexpr (core::is_floating<T>) {
    using Key = core::KeyOf<T>;
    constexpr Key sign = static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1));
    return std::bit_cast<T>(static_cast<Key>(core::bits_of(raw) & static_cast<Key>(~sign)));
  } else {
    return raw < 0 ? raw : -raw;
  }
}

/// The directed key of the original bits.
template <class T>
__device__ core::KeyOf<T> directed_key(T raw, bool smallest) {
  const core::KeyOf<T> key = core::key_of(raw);
  return smallest ? static_cast<core::KeyOf<T>>(core::max_key<T> - key) : key;
}

}  // namespace rtopk::cuda
