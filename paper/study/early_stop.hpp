// What is selected after a few passes of the paper's Algorithm 2, by several rules, beside the exact selection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "study/rows.hpp"
#include "study/statistics.hpp"

namespace rtopk::tool {

/// One selection beside the exact one: means over rows, as shares, not percent. a_max and a_min are the extreme elements
/// of the selection, b_max and b_min those of the exact one.
struct SelectionErrors {
  SampleMean e1{};             ///< |a_max - b_max| / |b_max|
  SampleMean e2{};             ///< |a_min - b_min| / |b_min|, as the paper's caption says.
  SampleMean e2_of_maximum{};  ///< |a_min - b_min| / |b_max|, which is close to the printed numbers.
  SampleMean hit{};            ///< The share of the exact selection that this one has too.
};

/// What is selected for one pair of max_iter and k, after passes that leave the bounds low and high.
struct EarlyStop {
  int max_iter = 0;
  std::int64_t k = 0;
  SelectionErrors printed{};          ///< Algorithm 2 as printed: the first k elements >= low.
  SelectionErrors threshold_first{};  ///< The Selecting Stage of the paper's kernel: Rule::threshold_first.
  /// As printed, after a loop that ends, as Algorithm 1's does, as soon as exactly k elements are >= the threshold,
  /// without raising low to that threshold.
  SelectionErrors unraised{};
  SampleMean hit_sure_first{};  ///< Of all elements >= high, which the exact selection has too, then the first >= low.
};

/// One result for each pair of max_iter and k, all from the same rows of `cols` elements.
[[nodiscard]] std::vector<EarlyStop> study_early_stop(const StudySetting& setting, const std::string& label,
                                                      std::int64_t cols, const std::vector<int>& max_iters,
                                                      const std::vector<std::int64_t>& ks, std::int64_t rows);

}  // namespace rtopk::tool
