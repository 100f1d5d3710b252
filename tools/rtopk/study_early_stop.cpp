#include "study_early_stop.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace rtopk::tool {
namespace {

// Rows that one task takes. Means are merged task by task, so they do not depend on the number of threads.
constexpr std::int64_t rows_per_task = 256;

/// The bounds of Algorithm 2 after `max_iter` passes. The library keeps them to itself, so here they are found again.
struct Bounds {
  float low;
  float high;
};

Bounds bisect(const float* row, std::int64_t cols, std::int64_t k, int max_iter) {
  const auto [least, greatest] = std::minmax_element(row, row + cols);
  Bounds bounds{*least, *greatest};
  for (int pass = 0; pass < max_iter; ++pass) {
    const float middle = 0.5f * bounds.low + 0.5f * bounds.high;
    std::int32_t count = 0;
    for (std::int64_t i = 0; i < cols; ++i) count += row[i] >= middle ? 1 : 0;
    (count < k ? bounds.high : bounds.low) = middle;
  }
  return bounds;
}

/// How many of the k elements of the exact selection are taken by: those >= high, then those in [low, high), each in
/// index order, until there are k.
std::int64_t hits_sure_first(const float* row, std::int64_t cols, const Bounds& bounds, const std::int32_t* exact,
                             std::int64_t k) {
  std::int64_t sure = 0;
  for (std::int64_t i = 0; i < cols; ++i) sure += row[i] >= bounds.high ? 1 : 0;
  sure = std::min(sure, k);  // more than k only where equal values are the maximum, the first upper bound
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

/// Of two ascending lists of k numbers.
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

/// |a - b| / |unit|, and 0 where a equals b, whatever the unit is.
double relative(float a, float b, float unit) {
  return a == b ? 0.0 : std::abs((static_cast<double>(a) - static_cast<double>(b)) / static_cast<double>(unit));
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
  if (rule == SelectionRule::paper) return;
  const float* const elements = batch.row(row);
  const Bounds bounds = bisect(elements, batch.cols(), k, into.max_iter);
  const std::int64_t hits = hits_sure_first(elements, batch.cols(), bounds, exact.indices() + at, k);
  into.hit_sure_first.add(static_cast<double>(hits) / wanted);
}

void add_rows(EarlyStop& into, const RowBatch& batch, const RowResults& early, const RowResults& exact,
              SelectionRule rule, ThreadPool& pool) {
  const std::int64_t tasks = (batch.rows() + rows_per_task - 1) / rows_per_task;
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
  const std::int64_t most_k = *std::max_element(ks.begin(), ks.end());
  std::optional<RowResults> early;
  std::optional<RowResults> exact;
  for_each_batch(setting, label, cols, rows, [&](RowBatch& batch) {
    if (!early) {
      early.emplace(batch.results(most_k));
      exact.emplace(batch.results(most_k));
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
