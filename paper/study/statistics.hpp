// Means and shares of samples, with 95 % confidence intervals.
#pragma once

#include <cstdint>

namespace rtopk::tool {

/// A 95 % interval reaches this many standard errors to either side.
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
  [[nodiscard]] double deviation() const noexcept;   ///< Standard deviation of one number; 0 for fewer than two.
  [[nodiscard]] Interval interval() const noexcept;  ///< Of the mean, by the normal approximation.

 private:
  std::int64_t count_ = 0;
  double mean_ = 0.0;
  double squares_ = 0.0;  ///< Sum of squared distances from the mean.
};

/// Wilson's interval of the share that `hits` out of `count` estimate. It is right at 0 and at 1 too.
[[nodiscard]] Interval share_interval(std::int64_t hits, std::int64_t count) noexcept;

/// The difference that the means of two samples of one distribution stay below in 95 % of cases, given the deviation of
/// one number.
[[nodiscard]] double expected_difference(double deviation, std::int64_t count, std::int64_t other_count) noexcept;

}  // namespace rtopk::tool
