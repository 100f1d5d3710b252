// At which iteration the paper's Algorithm 1 leaves its loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "study/rows.hpp"
#include "study/statistics.hpp"

namespace rtopk::tool {

/// The exits of all rows for one (M, k).
struct ExitCounts {
  std::int64_t cols = 0;
  std::int64_t k = 0;
  std::vector<std::int64_t> rows_at;  ///< rows_at[i]: rows whose loop ran i times.
  SampleMean iterations;

  [[nodiscard]] std::int64_t rows() const noexcept { return iterations.count(); }
  [[nodiscard]] std::int64_t rows_until(int iteration) const noexcept;  ///< Rows whose loop ran at most so often.
  [[nodiscard]] int last_iteration() const noexcept { return static_cast<int>(rows_at.size()) - 1; }
};

/// The counts for each k, all from the same rows. `epsilon` is the paper's epsilon'; 0: the exact search.
[[nodiscard]] std::vector<ExitCounts> count_exits(const StudySetting& setting, const std::string& label,
                                                  std::int64_t cols, const std::vector<std::int64_t>& ks,
                                                  double epsilon, std::int64_t rows);

}  // namespace rtopk::tool
