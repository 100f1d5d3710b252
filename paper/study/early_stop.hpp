// What the paper's Algorithm 2 selects after a few passes, beside the exact selection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "study/rows.hpp"
#include "study/statistics.hpp"

namespace rtopk::tool {

/// How k elements are taken once the search has its bounds, low and high.
enum class SelectionRule : std::uint8_t {
  paper,       ///< The first k that are >= low.
  sure_first,  ///< All that are >= high, which belong to the exact selection; then the first in [low, high).
};

/// Shares (not percent) for one (max_iter, k), each the mean over rows. With a* the extreme element of the early
/// selection and b* that of the exact one:
struct EarlyStop {
  int max_iter = 0;
  std::int64_t k = 0;
  SampleMean e1{};             ///< |a_max - b_max| / |b_max|
  SampleMean e2{};             ///< |a_min - b_min| / |b_min|, as the paper's caption says.
  SampleMean e2_of_maximum{};  ///< |a_min - b_min| / |b_max|, which is what the printed numbers are close to.
  SampleMean hit{};            ///< Of the k indices of the exact selection, those that are in the early one.
  /// The same for a loop that ends, as that of Algorithm 1 does, when exactly k elements are >= the threshold, and so
  /// has not raised low to it. Empty with SelectionRule::sure_first.
  SampleMean e1_unraised{};
  SampleMean e2_of_maximum_unraised{};
  SampleMean hit_unraised{};
  SampleMean hit_sure_first{};  ///< The same for SelectionRule::sure_first; empty if that was not asked for.
};

/// Every pair of them, max_iter by max_iter, all from the same rows of `cols` elements. With
/// SelectionRule::sure_first, that rule beside the paper's.
[[nodiscard]] std::vector<EarlyStop> study_early_stop(const StudySetting& setting, const std::string& label,
                                                      std::int64_t cols, const std::vector<int>& max_iters,
                                                      const std::vector<std::int64_t>& ks, std::int64_t rows,
                                                      SelectionRule rule);

}  // namespace rtopk::tool
