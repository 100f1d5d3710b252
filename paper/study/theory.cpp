#include "study/theory.hpp"

#include <cmath>
#include <numbers>

namespace rtopk::tool {
namespace {

/// The value that a normal number exceeds with probability `tail`, in (0, 1).
double normal_quantile_above(double tail) {
  double low = -40.0;
  double high = 40.0;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(middle / std::numbers::sqrt2) > tail ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace

double expected_iterations(std::int64_t cols, std::int64_t k) noexcept {
  const auto m = static_cast<double>(cols);
  const double threshold = normal_quantile_above(static_cast<double>(k) / m);
  return std::log2(2.0 * m * std::sqrt(std::log(m) / std::numbers::pi)) -
         threshold * threshold / (2.0 * std::numbers::ln2);
}

}  // namespace rtopk::tool
