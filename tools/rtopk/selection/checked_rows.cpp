#include "selection/checked_rows.hpp"

#include <algorithm>
#include <utility>

#include "rounding.hpp"

namespace rtopk::tool {
namespace {

constexpr std::int64_t blocks_per_thread = 8;

}  // namespace

void FirstViolation::report(Violation violation) {
  const std::lock_guard lock(mutex_);
  if (!first_ || violation.row < first_->row) first_ = std::move(violation);
  row_ = first_->row;
}

void check_rows(const void* input, std::int64_t first, std::int64_t rows, const Results& results,
                const Problem& problem, ThreadPool& pool, FirstViolation& first_broken) {
  const std::size_t row_bytes = static_cast<std::size_t>(problem.cols) * size_of(problem.dtype);
  const std::int64_t blocks = std::min<std::int64_t>(rows, pool.threads() * blocks_per_thread);
  const std::int64_t block_rows = ceil_div(rows, blocks);
  pool.run(blocks, [&](std::int64_t block) {
    const std::int64_t begin = block * block_rows;
    const std::int64_t count = std::min(block_rows, rows - begin);
    if (count <= 0 || first_broken.is_before(first + begin)) return;
    ContractChecker checker(problem);
    auto violation = checker.check(static_cast<const std::byte*>(input) + static_cast<std::size_t>(begin) * row_bytes,
                                   count, results.after(problem, begin));
    if (!violation) return;
    violation->row += first + begin;
    first_broken.report(std::move(*violation));
  });
}

}  // namespace rtopk::tool
