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

/// Hits of SelectionRule::sure_first: it takes the elements >= high, then those in [low, high), in index order, until
/// there are k. A hit is one that the exact selection has too.
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

/// Compares the first k elements >= low with the exact selection and adds the errors.
void add_unraised(EarlyStop& into, const float* row, std::int64_t cols, const std::int32_t* exact, float exact_min,
                  float exact_max) {
  const float low = unraised_low(row, cols, into.k, into.max_iter);
  float least = exact_max;
  float greatest = low;
  std::int64_t places = into.k;
  std::int64_t hits = 0;
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < cols && places > 0; ++i) {
    const bool wanted = next < into.k && exact[next] == i;
    if (wanted) ++next;
    if (row[i] < low) continue;
    --places;
    least = std::min(least, row[i]);
    greatest = std::max(greatest, row[i]);
    hits += wanted ? 1 : 0;
  }
  into.e1_unraised.add(relative(greatest, exact_max, exact_max));
  into.e2_of_maximum_unraised.add(relative(least, exact_min, exact_max));
  into.hit_unraised.add(static_cast<double>(hits) / static_cast<double>(into.k));
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

void add_row(EarlyStop& into, const RowBatch& batch, std::int64_t row, const RowResults& early, const RowResults& exact,
             SelectionRule rule) {
  const std::int64_t k = into.k;
  const std::int64_t at = row * k;
  const auto [a_min, a_max] = std::minmax_element(early.values() + at, early.values() + at + k);
  const auto [b_min, b_max] = std::minmax_element(exact.values() + at, exact.values() + at + k);
  into.e1.add(relative(*a_max, *b_max, *b_max));
  into.e2.add(relative(*a_min, *b_min, *b_min));
  into.e2_of_maximum.add(relative(*a_min, *b_min, *b_max));
  const auto wanted = static_cast<double>(k);
  into.hit.add(static_cast<double>(common(early.indices() + at, exact.indices() + at, k)) / wanted);
  const float* const elements = batch.row(row);
  if (rule == SelectionRule::paper) {
    add_unraised(into, elements, batch.cols(), exact.indices() + at, *b_min, *b_max);
    return;
  }
  const Bounds bounds = bisect(elements, batch.cols(), k, into.max_iter);
  const std::int64_t hits = hits_sure_first(elements, batch.cols(), bounds, exact.indices() + at, k);
  into.hit_sure_first.add(static_cast<double>(hits) / wanted);
}

void add_rows(EarlyStop& into, const RowBatch& batch, const RowResults& early, const RowResults& exact,
              SelectionRule rule, ThreadPool& pool) {
  const std::int64_t tasks = ceil_div(batch.rows(), rows_per_task);
  std::vector<EarlyStop> parts(static_cast<std::size_t>(tasks), {.max_iter = into.max_iter, .k = into.k});
  pool.run(tasks, [&](std::int64_t task) {
    const std::int64_t end = std::min(batch.rows(), (task + 1) * rows_per_task);
    for (std::int64_t row = task * rows_per_task; row < end; ++row) {
      add_row(parts[static_cast<std::size_t>(task)], batch, row, early, exact, rule);
    }
  });
  for (const EarlyStop& part : parts) {
    into.e1.merge(part.e1);
    into.e2.merge(part.e2);
    into.e2_of_maximum.merge(part.e2_of_maximum);
    into.hit.merge(part.hit);
    into.e1_unraised.merge(part.e1_unraised);
    into.e2_of_maximum_unraised.merge(part.e2_of_maximum_unraised);
    into.hit_unraised.merge(part.hit_unraised);
    into.hit_sure_first.merge(part.hit_sure_first);
  }
}

}  // namespace

std::vector<EarlyStop> study_early_stop(const StudySetting& setting, const std::string& label, std::int64_t cols,
                                        const std::vector<int>& max_iters, const std::vector<std::int64_t>& ks,
                                        std::int64_t rows, SelectionRule rule) {
  std::vector<EarlyStop> all;
  for (const int max_iter : max_iters) {
    for (const std::int64_t k : ks) all.push_back({.max_iter = max_iter, .k = k});
  }
  const std::int64_t max_k = *std::max_element(ks.begin(), ks.end());
  std::optional<RowResults> early;
  std::optional<RowResults> exact;
  for_each_batch(setting, label, cols, rows, [&](RowBatch& batch) {
    if (!early) {
      early.emplace(batch.results(max_k));
      exact.emplace(batch.results(max_k));
    }
    for (const std::int64_t k : ks) {
      batch.select({.k = k}, *exact);
      for (EarlyStop& cell : all) {
        if (cell.k != k) continue;
        batch.select({.k = k, .max_iter = cell.max_iter}, *early);
        add_rows(cell, batch, *early, *exact, rule, *setting.pool);
      }
    }
  });
  return all;
}

}  // namespace rtopk::tool
