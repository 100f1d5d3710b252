// Arithmetic on sizes in bytes that saturates instead of wrapping around, and division that rounds up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace rtopk::core {

/// The maximum size of an object in bytes.
inline constexpr std::size_t kMaxBytes = std::numeric_limits<std::size_t>::max() / 2;

[[nodiscard]] constexpr std::size_t plus(std::size_t a, std::size_t b) noexcept {
  std::size_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::size_t>::max() : sum;
}

[[nodiscard]] constexpr std::size_t times(std::size_t a, std::size_t b) noexcept {
  std::size_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::size_t>::max() : product;
}

/// Bytes of `count` elements of `size` bytes. A negative count saturates.
[[nodiscard]] constexpr std::size_t bytes_of(std::int64_t count, std::size_t size) noexcept {
  return count < 0 ? std::numeric_limits<std::size_t>::max() : times(static_cast<std::size_t>(count), size);
}

/// The least multiple of `multiple` that is >= `bytes`.
[[nodiscard]] constexpr std::size_t round_up(std::size_t bytes, std::size_t multiple) noexcept {
  const std::size_t rest = bytes % multiple;
  return rest == 0 ? bytes : plus(bytes, multiple - rest);
}

/// a / b rounded up. Both must not be negative.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept { return (a + b - 1) / b; }

}  // namespace rtopk::core
