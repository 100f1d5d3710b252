// What the paper's Algorithm 2 selects after a few passes, beside the exact selection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "study/rows.hpp"
#include "study/statistics.hpp"

namespace rtopk::tool {

/// Which k elements are selected after the search has ended with the bounds low and high.
enum class SelectionRule : std::uint8_t {
  paper,       ///< The first k that are >= low.
  sure_first,  ///< All >= high, which the exact selection has too; then the first in [low, high).
};

/// Statistics for one pair of max_iter and k: means over rows, as shares, not percent. a_max and a_min are the extreme
/// elements of the early selection, b_max and b_min those of the exact one.
struct EarlyStop {
  int max_iter = 0;
  std::int64_t k = 0;
  SampleMean e1{};             ///< |a_max - b_max| / |b_max|
  SampleMean e2{};             ///< |a_min - b_min| / |b_min|, as the paper's caption says.
  SampleMean e2_of_maximum{};  ///< |a_min - b_min| / |b_max|, which is close to the printed numbers.
  SampleMean hit{};            ///< The share of the exact selection that the early one has too.
  /// The same for a loop that ends, as Algorithm 1's does, as soon as exactly k elements are >= the threshold, without
  /// raising low to that threshold. Empty with SelectionRule::sure_first.
  SampleMean e1_unraised{};
  SampleMean e2_of_maximum_unraised{};
  SampleMean hit_unraised{};
  SampleMean hit_sure_first{};  ///< Hits of SelectionRule::sure_first; empty with SelectionRule::paper.
};

/// One result for each pair of max_iter and k, all from the same rows of `cols` elements. With
/// SelectionRule::sure_first, also the hits of that rule.
[[nodiscard]] std::vector<EarlyStop> study_early_stop(const StudySetting& setting, const std::string& label,
                                                      std::int64_t cols, const std::vector<int>& max_iters,
                                                      const std::vector<std::int64_t>& ks, std::int64_t rows,
                                                      SelectionRule rule);

}  // namespace rtopk::tool
