#include "aim.hpp"

#include <algorithm>
#include <cmath>

namespace rtopk::cuda {
namespace {

/// The number that a standard normal variable exceeds with probability p, to three digits (Abramowitz and Stegun, 26.2.23).
double normal_quantile(double p) {
  const bool upper = p < 0.5;
  const double t = std::sqrt(-2.0 * std::log(upper ? p : 1.0 - p));
  const double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  return upper ? z : -z;
}

}  // namespace

Aim aim_at(std::int64_t cols, std::int64_t k, std::int64_t capacity) noexcept {
  const double number = static_cast<double>(cols);
  const double rank = static_cast<double>(k);
  // How much the count at a fixed threshold varies from row to row, and a little for the threshold itself.
  const double spread = 1.1 * std::sqrt(rank * (1.0 - rank / number)) + 0.5;
  Aim aim;
  const double room = static_cast<double>(capacity) - rank;
  if (room >= 3.8 * spread || k == 1) {
    aim.low_rank = static_cast<std::int32_t>(std::lround(rank + std::clamp(room / 2, 1.0, 2.6 * spread)));
  } else {
    const double most = 0.34 * static_cast<double>(capacity);
    const double half = std::clamp(2.6 * spread, 2.0, most);
    aim.low_rank = static_cast<std::int32_t>(std::lround(std::min(rank + half, number)));
    aim.high_rank = static_cast<std::int32_t>(std::lround(std::max(rank - half, 0.5)));
    aim.high_rank = std::max(aim.high_rank, 1);
  }
  const double p = std::clamp((rank - 0.5) / number, 1e-9, 1.0 - 1e-9);
  const double z = normal_quantile(p);
  const double density = std::exp(-0.5 * z * z) / 2.5066282746310002;
  aim.deviations = static_cast<float>(z);
  aim.step = static_cast<float>(1.0 / (number * density));
  return aim;
}

}  // namespace rtopk::cuda
