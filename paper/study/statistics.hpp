// Means and shares of samples, with 95 % confidence intervals.
#pragma once

#include <cstdint>

namespace rtopk::tool {

/// Of a 95 % interval: this many standard errors to either side.
inline constexpr double normal_95 = 1.959963984540054;

struct Interval {
  double low = 0.0;
  double high = 0.0;
};

/// The mean of numbers that are added one by one, or by merging means in a fixed order.
class SampleMean {
 public:
  void add(double value) noexcept;
  void merge(const SampleMean& other) noexcept;

  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] double mean() const noexcept { return mean_; }
  [[nodiscard]] double deviation() const noexcept;   ///< Of one number; 0 for fewer than two.
  [[nodiscard]] Interval interval() const noexcept;  ///< Of the mean, by the central limit theorem.

 private:
  std::int64_t count_ = 0;
  double mean_ = 0.0;
  double squares_ = 0.0;  ///< Of the distances from the mean.
};

/// Of the share that `hits` out of `count` estimate, by Wilson: of use at 0 and at 1 too.
[[nodiscard]] Interval share_interval(std::int64_t hits, std::int64_t count) noexcept;

/// By how much the means of two samples of one distribution may differ (95 %), given the deviation of one number.
[[nodiscard]] double expected_difference(double deviation, std::int64_t count, std::int64_t other_count) noexcept;

}  // namespace rtopk::tool
