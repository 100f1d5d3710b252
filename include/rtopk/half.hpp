// Conversions between float and the 16-bit floating-point formats, which are passed as their bits. Conversions to float
// are exact. Conversions from float round to nearest, ties to even. NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace rtopk {

/// The float with the same value as a bf16.
[[nodiscard]] constexpr float float_from_bf16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// The bf16 nearest to `value`, ties to even.
[[nodiscard]] constexpr std::uint16_t bf16_from_float(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // quiet NaN
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// The float with the same value as an f16.
[[nodiscard]] constexpr float float_from_f16(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  std::uint32_t shift = 0;  // a subnormal half is a normal float
  for (; (mantissa & 0x400u) == 0; mantissa <<= 1) ++shift;
  return std::bit_cast<float>(sign | ((113 - shift) << 23) | ((mantissa & 0x3ffu) << 13));
}

/// The f16 nearest to `value`, ties to even. Magnitudes of 65520 and more become infinity.
[[nodiscard]] constexpr std::uint16_t f16_from_float(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint32_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65536 and above: infinity
  std::uint32_t half = 0;
  std::uint32_t rest = 0;          // bits cut off
  std::uint32_t tie = 0x1000u;     // the value of `rest` that is exactly half a unit
  if (magnitude >= 0x38800000u) {  // a normal half
    half = (magnitude - 0x38000000u) >> 13;
    rest = magnitude & 0x1fffu;
  } else {
    const std::uint32_t shift = 126u - (magnitude >> 23);  // >= 14
    if (shift > 24) return static_cast<std::uint16_t>(sign);
    const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    half = significand >> shift;
    rest = significand & ((1u << shift) - 1u);
    tie = 1u << (shift - 1);
  }
  if (rest > tie || (rest == tie && (half & 1u) != 0)) ++half;  // a carry into the exponent is correct, up to infinity
  return static_cast<std::uint16_t>(sign | half);
}

}  // namespace rtopk
