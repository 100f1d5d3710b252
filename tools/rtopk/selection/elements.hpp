// Reads single elements and indices of any type and alignment, for checks and for printing. Simple rather than fast.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include <rtopk/half.hpp>
#include <rtopk/types.hpp>

namespace rtopk::tool {

template <typename T>
[[nodiscard]] T load(const void* base, std::int64_t i) noexcept {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(base) + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

/// Exact for every type.
[[nodiscard]] inline double element_at(DType dtype, const void* base, std::int64_t i) noexcept {
  switch (dtype) {
    case DType::f32: return static_cast<double>(load<float>(base, i));
    case DType::f16: return static_cast<double>(float_from_f16(load<std::uint16_t>(base, i)));
    case DType::bf16: return static_cast<double>(float_from_bf16(load<std::uint16_t>(base, i)));
    case DType::f64: return load<double>(base, i);
    case DType::i32: return static_cast<double>(load<std::int32_t>(base, i));
  }
  return 0.0;
}

/// The bits, in the low bits of the result.
[[nodiscard]] inline std::uint64_t bits_at(DType dtype, const void* base, std::int64_t i) noexcept {
  switch (size_of(dtype)) {
    case 2: return load<std::uint16_t>(base, i);
    case 4: return load<std::uint32_t>(base, i);
    default: return load<std::uint64_t>(base, i);
  }
}

[[nodiscard]] inline std::int64_t index_at(IndexType type, const void* base, std::int64_t i) noexcept {
  switch (type) {
    case IndexType::i32: return load<std::int32_t>(base, i);
    case IndexType::i64: return load<std::int64_t>(base, i);
    case IndexType::u8: return load<std::uint8_t>(base, i);
    case IndexType::u16: return load<std::uint16_t>(base, i);
  }
  return -1;
}

/// With enough digits to tell it from its neighbours.
[[nodiscard]] inline std::string element_text(DType dtype, const void* base, std::int64_t i) {
  const double value = element_at(dtype, base, i);
  if (std::isnan(value)) return "nan";
  switch (dtype) {
    case DType::f64: return fmt::format("{}", value);
    case DType::i32: return fmt::format("{:.0f}", value);
    case DType::f32: return fmt::format("{}", static_cast<float>(value));
    case DType::f16: return fmt::format("{:.5g}", value);
    case DType::bf16: return fmt::format("{:.4g}", value);
  }
  return "?";
}

/// The contract's comparison: NaN is the greatest and equal to itself, -0 equals +0.
[[nodiscard]] inline bool greater(double a, double b) noexcept {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  return a > b;
}

/// Whether a comes before b in the direction of the selection.
[[nodiscard]] inline bool better(Direction direction, double a, double b) noexcept {
  return direction == Direction::largest ? greater(a, b) : greater(b, a);
}

}  // namespace rtopk::tool
