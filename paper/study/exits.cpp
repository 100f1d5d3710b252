#include "study/exits.hpp"

#include <algorithm>
#include <numeric>

namespace rtopk::tool {

std::int64_t ExitCounts::rows_until(int iteration) const noexcept {
  const auto end = std::min(rows_at.size(), static_cast<std::size_t>(iteration) + 1);
  return std::accumulate(rows_at.begin(), rows_at.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{0});
}

std::vector<ExitCounts> count_exits(const StudySetting& setting, const std::string& label, std::int64_t cols,
                                    const std::vector<std::int64_t>& ks, double epsilon, std::int64_t rows) {
  std::vector<ExitCounts> all;
  for (const std::int64_t k : ks) all.push_back({.cols = cols, .k = k, .rows_at = {}, .iterations = {}});
  const std::int64_t max_k = *std::max_element(ks.begin(), ks.end());
  std::optional<RowResults> results;
  for_each_batch(setting, label, cols, rows, [&](RowBatch& batch) {
    if (!results) results.emplace(batch.results(max_k));
    for (ExitCounts& exits : all) {
      batch.select({.k = exits.k, .epsilon = epsilon, .search = Search::bisection}, *results);
      for (std::int64_t row = 0; row < batch.rows(); ++row) {
        const auto iteration = static_cast<std::size_t>(results->passes()[row]);
        if (exits.rows_at.size() <= iteration) exits.rows_at.resize(iteration + 1);
        ++exits.rows_at[iteration];
        exits.iterations.add(static_cast<double>(iteration));
      }
    }
  });
  return all;
}

}  // namespace rtopk::tool
