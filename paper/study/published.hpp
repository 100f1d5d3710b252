// The numbers that the paper prints: X. Xie, Y. Luo, H. Peng, C. Ding, "RTop-K: Ultra-Fast Row-Wise Top-K Selection for
// Neural Network Acceleration on GPUs", ICLR 2025, https://openreview.net/forum?id=PHg4rAXFVH.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace rtopk::tool {

inline constexpr std::int64_t published_rows_table1 = 100000;
inline constexpr std::int64_t published_rows_table2 = 100000;
inline constexpr std::int64_t published_rows_table5 = 10000;
inline constexpr double published_epsilon_table1 = 1e-4;

/// A column of Table 1 or of Table 5 (in the appendix).
struct PublishedExits {
  std::int64_t cols = 0;
  std::int64_t k = 0;
  int first_iteration = 1;                 ///< The first that the paper prints.
  std::vector<double> cumulative_percent;  ///< From first_iteration on; 100 after the last.
  double mean = 0.0;
  double theory = 0.0;  ///< E(n); 0 in Table 1, which has none.

  /// Empty for an iteration before first_iteration.
  [[nodiscard]] std::optional<double> cumulative_at(int iteration) const;
};

struct PublishedEarlyStop {
  int max_iter = 0;
  std::int64_t k = 0;
  double e1_percent = 0.0;
  double e2_percent = 0.0;
  double hit_percent = 0.0;
};

[[nodiscard]] std::span<const PublishedExits> published_table1();
[[nodiscard]] std::span<const PublishedEarlyStop> published_table2();
[[nodiscard]] std::span<const PublishedExits> published_table5();

}  // namespace rtopk::tool
