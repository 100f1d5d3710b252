// The paper's estimate of how many iterations its exact search takes.
#pragma once

#include <cstdint>

namespace rtopk::tool {

/// E(n) of the paper's appendix, for a row of `cols` normal numbers and 1 <= k < cols:
///   log2(2 M sqrt(ln M / pi)) - (Phi^-1(1 - k / M))^2 / (2 ln 2)
[[nodiscard]] double expected_iterations(std::int64_t cols, std::int64_t k) noexcept;

}  // namespace rtopk::tool
