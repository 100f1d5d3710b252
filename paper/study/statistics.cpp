#include "study/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace rtopk::tool {

void SampleMean::add(double value) noexcept {
  ++count_;
  const double distance = value - mean_;
  mean_ += distance / static_cast<double>(count_);
  squares_ += distance * (value - mean_);
}

void SampleMean::merge(const SampleMean& other) noexcept {
  if (other.count_ == 0) return;
  const auto mine = static_cast<double>(count_);
  const auto theirs = static_cast<double>(other.count_);
  const double distance = other.mean_ - mean_;
  count_ += other.count_;
  mean_ += distance * theirs / (mine + theirs);
  squares_ += other.squares_ + distance * distance * mine * theirs / (mine + theirs);
}

double SampleMean::deviation() const noexcept {
  return count_ < 2 ? 0.0 : std::sqrt(squares_ / static_cast<double>(count_ - 1));
}

Interval SampleMean::interval() const noexcept {
  if (count_ == 0) return {};
  const double half = normal_95 * deviation() / std::sqrt(static_cast<double>(count_));
  return {mean_ - half, mean_ + half};
}

Interval share_interval(std::int64_t hits, std::int64_t count) noexcept {
  if (count == 0) return {0.0, 1.0};
  const auto n = static_cast<double>(count);
  const double p = static_cast<double>(hits) / n;
  const double z2 = normal_95 * normal_95;
  const double centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
  const double half = normal_95 / (1.0 + z2 / n) * std::sqrt(p * (1.0 - p) / n + z2 / (4.0 * n * n));
  return {hits == 0 ? 0.0 : std::max(0.0, centre - half), hits == count ? 1.0 : std::min(1.0, centre + half)};
}

double expected_difference(double deviation, std::int64_t count, std::int64_t other_count) noexcept {
  return normal_95 * deviation * std::sqrt(1.0 / static_cast<double>(count) + 1.0 / static_cast<double>(other_count));
}

}  // namespace rtopk::tool
