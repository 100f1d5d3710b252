// The kth value that the search of a row tries first.
#include "cuda/select/expectation.hpp"

#include <algorithm>
#include <cmath>

namespace rtopk::cuda {
namespace {

/// The value that a standard normal variable exceeds with probability p, to three digits (Abramowitz and Stegun,
/// 26.2.23).
double normal_quantile(double p) {
  const bool upper = p < 0.5;
  const double t = std::sqrt(-2.0 * std::log(upper ? p : 1.0 - p));
  const double z =
      t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  return upper ? z : -z;
}

}  // namespace

Expectation expectation_of(std::int64_t cols, std::int64_t k) noexcept {
  const double number = static_cast<double>(cols);
  const double share = std::clamp((static_cast<double>(k) - 0.1) / (number + 0.2), 1e-12, 1.0 - 1e-12);
  const double kth = normal_quantile(share);
  const double density = std::exp(-0.5 * kth * kth) / 2.5066282746310002;
  return {static_cast<float>(kth), static_cast<float>(1.0 / (number * std::max(density, 1e-12)))};
}

}  // namespace rtopk::cuda
