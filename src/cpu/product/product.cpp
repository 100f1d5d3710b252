// Splits a product into tasks. One task sums each element of the result, in the order of the rows or of the selectors,
// so that the result does not depend on the number of threads.
#include "cpu/product/product.hpp"

#include <algorithm>
#include <atomic>

#include "core/checks.hpp"
#include "cpu/runtime/floating_environment.hpp"
#include "cpu/runtime/threads.hpp"

namespace rtopk::cpu {
namespace {

constexpr std::int64_t kRowsPerBlock = 256;  // about 100 us
// Columns of the gradient of W: a block of it stays in the L1 cache while a task reads all rows.
constexpr std::int64_t kMaxColsPerBlock = 64;
constexpr std::int64_t kMinColsPerBlock = 16;  // a cache line

/// Rounds up without overflow: the block size of a plan may be the greatest integer.
std::int64_t blocks_of(std::int64_t count, std::int64_t block) { return count / block + (count % block != 0 ? 1 : 0); }

/// At least one: without rows, the gradient of W is still written.
std::int64_t row_blocks_of(const gnn::ProductPlan& plan) {
  return std::max<std::int64_t>(blocks_of(plan.problem.rows, plan.rows_per_worker), 1);
}
std::int64_t col_blocks_of(const gnn::ProductPlan& plan) { return blocks_of(plan.problem.width, plan.cols_per_worker); }

struct Job {
  const gnn::ProductPlan& plan;
  const gnn::ProductCall& call;
  std::atomic<std::int64_t> next{0};
};

void run_task(void* context, std::int64_t) {
  auto& job = *static_cast<Job*>(context);
  const DefaultFloatingEnvironment environment;
  const gnn::ProductPlan& plan = job.plan;
  const std::int64_t row_blocks = row_blocks_of(plan);
  const std::int64_t blocks = row_blocks * col_blocks_of(plan);
  for (;;) {
    const std::int64_t block = job.next.fetch_add(1, std::memory_order_relaxed);
    if (block >= blocks) return;
    const std::int64_t first_row = block % row_blocks * plan.rows_per_worker;
    const std::int64_t first_col = block / row_blocks * plan.cols_per_worker;
    multiply(plan.problem, job.call,
             {first_row, std::min(first_row + plan.rows_per_worker, plan.problem.rows), first_col,
              std::min(first_col + plan.cols_per_worker, plan.problem.width)});
  }
}

}  // namespace

void make_plan(const gnn::Product& problem, const Traits& traits, gnn::ProductPlan& plan) noexcept {
  const std::int64_t threads = traits.threads;
  const std::int64_t rows = std::max<std::int64_t>(problem.rows, 1);
  gnn::ProductPlan made{.problem = problem};
  if (problem.term == gnn::ProductTerm::matrix_gradient) {
    made.rows_per_worker = rows;
    made.cols_per_worker = kMaxColsPerBlock;
    while (made.cols_per_worker > kMinColsPerBlock && problem.width / made.cols_per_worker < threads) {
      made.cols_per_worker /= 2;
    }
  } else {
    made.rows_per_worker = kRowsPerBlock;
    made.cols_per_worker = problem.width;
  }
  made.threads = static_cast<std::int32_t>(std::min(threads, row_blocks_of(made) * col_blocks_of(made)));
  plan = made;
}

Status check_plan(const gnn::ProductPlan& plan) noexcept {
  const bool whole = plan.problem.term == gnn::ProductTerm::matrix_gradient
                         ? plan.rows_per_worker >= plan.problem.rows
                         : plan.cols_per_worker >= plan.problem.width;
  const bool of_cpu = plan.parts == 1 && plan.shared_bytes == 0 && plan.workspace_bytes == 0;
  if (plan.threads >= 1 && plan.rows_per_worker >= 1 && plan.cols_per_worker >= 1 && whole && of_cpu) return {};
  return core::status(
      StatusCode::invalid_argument,
      "plan.threads is %d, rows_per_worker %lld and cols_per_worker %lld; accepted: 1 or more, and all rows "
      "for a matrix_gradient, all columns for the others; and no parts, shared memory or workspace",
      plan.threads, static_cast<long long>(plan.rows_per_worker), static_cast<long long>(plan.cols_per_worker));
}

void run(const gnn::ProductPlan& plan, const gnn::ProductCall& call, const Executor* executor) noexcept {
  Job job{plan, call};
  run_tasks(executor, tasks_for(plan.threads, row_blocks_of(plan) * col_blocks_of(plan), 1), run_task, &job);
}

}  // namespace rtopk::cpu
