// Whole numbers rounded up.
#pragma once

#include <concepts>

namespace rtopk::tool {

/// n / d, rounded up. n >= 0, d > 0, and n + d must not overflow.
[[nodiscard]] constexpr auto ceil_div(std::integral auto n, decltype(n) d) noexcept -> decltype(n) {
  return static_cast<decltype(n)>((n + d - 1) / d);
}

/// The smallest multiple of `step` that is not below n.
[[nodiscard]] constexpr auto round_up(std::integral auto n, decltype(n) step) noexcept -> decltype(n) {
  return static_cast<decltype(n)>(ceil_div(n, step) * step);
}

}  // namespace rtopk::tool
