#include "study/early_stop.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "rounding.hpp"

namespace rtopk::tool {
namespace {

// Means are merged task by task, so that they do not depend on the number of threads.
constexpr std::int64_t rows_per_task = 256;

/// The bounds of Algorithm 2 after `max_iter` passes. The library does not return them, so they are computed again
/// here.
struct Bounds {
  float low;
  float high;
};

std::int64_t count_at_least(const float* row, std::int64_t cols, float threshold) {
  std::int32_t count = 0;
  for (std::int64_t i = 0; i < cols; ++i) count += row[i] >= threshold ? 1 : 0;
  return count;
}

Bounds bisect(const float* row, std::int64_t cols, std::int64_t k, int max_iter) {
  const auto [least, greatest] = std::minmax_element(row, row + cols);
  Bounds bounds{*least, *greatest};
  for (int pass = 0; pass < max_iter; ++pass) {
    const float middle = 0.5f * bounds.low + 0.5f * bounds.high;
    (count_at_least(row, cols, middle) < k ? bounds.high : bounds.low) = middle;
  }
  return bounds;
}

/// Hits of a rule that takes the elements >= high, then those in [low, high), in index order, until there are k. A hit
/// is one that the exact selection has too.
std::int64_t hits_sure_first(const float* row, std::int64_t cols, const Bounds& bounds, const std::int32_t* exact,
                             std::int64_t k) {
  // There are more than k only if the maximum, which is the first upper bound, occurs more than k times.
  std::int64_t sure = std::min(count_at_least(row, cols, bounds.high), k);
  std::int64_t fill = k - sure;
  std::int64_t hits = 0;
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < cols; ++i) {
    const bool wanted = next < k && exact[next] == i;
    if (wanted) ++next;
    if (row[i] < bounds.low) continue;
    std::int64_t& places = row[i] >= bounds.high ? sure : fill;
    if (places == 0) continue;
    --places;
    hits += wanted ? 1 : 0;
  }
  return hits;
}

/// |a - b| / |unit|; 0 if a equals b, even if the unit is 0.
double relative(float a, float b, float unit) {
  return a == b ? 0.0 : std::abs((static_cast<double>(a) - static_cast<double>(b)) / static_cast<double>(unit));
}

/// The lower bound of a loop that ends where exactly k elements are >= the threshold, before it raises the bound.
float unraised_low(const float* row, std::int64_t cols, std::int64_t k, int max_iter) {
  const auto [least, greatest] = std::minmax_element(row, row + cols);
  Bounds bounds{*least, *greatest};
  for (int pass = 0; pass < max_iter; ++pass) {
    const float middle = 0.5f * bounds.low + 0.5f * bounds.high;
    const std::int64_t count = count_at_least(row, cols, middle);
    if (count == k) break;
    (count < k ? bounds.high : bounds.low) = middle;
  }
  return bounds.low;
}

/// The extreme elements of a selection.
struct Extremes {
  float least;
  float greatest;
};

void add_errors(SelectionErrors& into, const Extremes& selected, const Extremes& exact, std::int64_t hits,
                std::int64_t k) {
  into.e1.add(relative(selected.greatest, exact.greatest, exact.greatest));
  into.e2.add(relative(selected.least, exact.least, exact.least));
  into.e2_of_maximum.add(relative(selected.least, exact.least, exact.greatest));
  into.hit.add(static_cast<double>(hits) / static_cast<double>(k));
}

/// Compares the first k elements >= low with the exact selection.
void add_first(SelectionErrors& into, const float* row, std::int64_t cols, float low, const std::int32_t* exact,
               const Extremes& exact_extremes, std::int64_t k) {
  Extremes selected{exact_extremes.greatest, low};
  std::int64_t places = k;
  std::int64_t hits = 0;
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < cols && places > 0; ++i) {
    const bool wanted = next < k && exact[next] == i;
    if (wanted) ++next;
    if (row[i] < low) continue;
    --places;
    selected = {std::min(selected.least, row[i]), std::max(selected.greatest, row[i])};
    hits += wanted ? 1 : 0;
  }
  add_errors(into, selected, exact_extremes, hits, k);
}

/// How many numbers two ascending lists of k have in common.
std::int64_t common(const std::int32_t* a, const std::int32_t* b, std::int64_t k) {
  std::int64_t count = 0;
  for (std::int64_t i = 0, j = 0; i < k && j < k;) {
    if (a[i] == b[j]) {
      ++count;
      ++i;
      ++j;
    } else {
      ++(a[i] < b[j] ? i : j);
    }
  }
  return count;
}

Extremes extremes(const RowResults& results, std::int64_t at, std::int64_t k) {
  const auto [least, greatest] = std::minmax_element(results.values() + at, results.values() + at + k);
  return {*least, *greatest};
}

/// The results of the library for one batch.
struct Selections {
  RowResults exact;
  RowResults printed;
  RowResults threshold_first;
};

void add_row(EarlyStop& into, const RowBatch& batch, std::int64_t row, const Selections& selections) {
  const std::int64_t k = into.k;
  const std::int64_t at = row * k;
  const std::int32_t* const exact = selections.exact.indices() + at;
  const Extremes exact_extremes = extremes(selections.exact, at, k);
  const auto add = [&](SelectionErrors& errors, const RowResults& results) {
    add_errors(errors, extremes(results, at, k), exact_extremes, common(results.indices() + at, exact, k), k);
  };
  add(into.printed, selections.printed);
  add(into.threshold_first, selections.threshold_first);
  const float* const elements = batch.row(row);
  const float low = unraised_low(elements, batch.cols(), k, into.max_iter);
  add_first(into.unraised, elements, batch.cols(), low, exact, exact_extremes, k);
  const Bounds bounds = bisect(elements, batch.cols(), k, into.max_iter);
  const std::int64_t hits = hits_sure_first(elements, batch.cols(), bounds, exact, k);
  into.hit_sure_first.add(static_cast<double>(hits) / static_cast<double>(k));
}

void merge(SelectionErrors& into, const SelectionErrors& part) {
  into.e1.merge(part.e1);
  into.e2.merge(part.e2);
  into.e2_of_maximum.merge(part.e2_of_maximum);
  into.hit.merge(part.hit);
}

void add_rows(EarlyStop& into, const RowBatch& batch, const Selections& selections, ThreadPool& pool) {
  const std::int64_t tasks = ceil_div(batch.rows(), rows_per_task);
  std::vector<EarlyStop> parts(static_cast<std::size_t>(tasks), {.max_iter = into.max_iter, .k = into.k});
  pool.run(tasks, [&](std::int64_t task) {
    const std::int64_t end = std::min(batch.rows(), (task + 1) * rows_per_task);
    for (std::int64_t row = task * rows_per_task; row < end; ++row) {
      add_row(parts[static_cast<std::size_t>(task)], batch, row, selections);
    }
  });
  for (const EarlyStop& part : parts) {
    merge(into.printed, part.printed);
    merge(into.threshold_first, part.threshold_first);
    merge(into.unraised, part.unraised);
    into.hit_sure_first.merge(part.hit_sure_first);
  }
}

}  // namespace

std::vector<EarlyStop> study_early_stop(const StudySetting& setting, const std::string& label, std::int64_t cols,
                                        const std::vector<int>& max_iters, const std::vector<std::int64_t>& ks,
                                        std::int64_t rows) {
  std::vector<EarlyStop> all;
  for (const int max_iter : max_iters) {
    for (const std::int64_t k : ks) all.push_back({.max_iter = max_iter, .k = k});
  }
  const std::int64_t max_k = *std::max_element(ks.begin(), ks.end());
  std::optional<Selections> selections;
  for_each_batch(setting, label, cols, rows, [&](RowBatch& batch) {
    if (!selections) selections = Selections{batch.results(max_k), batch.results(max_k), batch.results(max_k)};
    for (const std::int64_t k : ks) {
      batch.select({.k = k}, selections->exact);
      for (EarlyStop& cell : all) {
        if (cell.k != k) continue;
        batch.select({.k = k, .max_iter = cell.max_iter, .rule = Rule::printed}, selections->printed);
        batch.select({.k = k, .max_iter = cell.max_iter, .rule = Rule::threshold_first}, selections->threshold_first);
        add_rows(cell, batch, *selections, *setting.pool);
      }
    }
  });
  return all;
}

}  // namespace rtopk::tool
