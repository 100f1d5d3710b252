// Distributes blocks of rows over tasks, each with its own scratch memory.
#include <algorithm>
#include <atomic>
#include <cstddef>

#include "core/reference.hpp"
#include "cpu/backend.hpp"
#include "cpu/runtime/floating_environment.hpp"
#include "cpu/runtime/threads.hpp"
#include "cpu/select/simd_rows.hpp"

namespace rtopk::cpu {
namespace {

struct Job {
  const Plan& plan;
  const void* input;
  const Output& output;
  std::byte* workspace;
  std::atomic<std::int64_t> next_row{0};
};

void select_rows(const Job& job, std::int64_t begin, std::int64_t end, void* scratch) {
#if defined(RTOPK_HAVE_HIGHWAY)
  if (job.plan.family != Family::reference) {
    simd_rows(job.plan, job.input, job.output, begin, end, scratch);
    return;
  }
#endif
  core::reference_rows(job.plan.problem, job.input, job.output, begin, end, scratch);
}

void run_task(void* context, std::int64_t task) {
  auto& job = *static_cast<Job*>(context);
  const DefaultFloatingEnvironment environment;
  void* const scratch = job.workspace + static_cast<std::size_t>(task) * job.plan.scratch_bytes;
  const std::int64_t rows = job.plan.problem.rows;
  const std::int64_t block = std::min(job.plan.rows_per_block, rows);
  for (;;) {
    const std::int64_t begin = job.next_row.fetch_add(block, std::memory_order_relaxed);
    if (begin >= rows) return;
    select_rows(job, begin, std::min(rows, begin + block), scratch);
  }
}

std::size_t scratch_bytes([[maybe_unused]] const Plan& plan) noexcept {
#if defined(RTOPK_HAVE_HIGHWAY)
  if (plan.family != Family::reference) return simd_scratch_bytes(plan);
#endif
  return core::reference_scratch_bytes(plan.problem);
}

}  // namespace

Kernels kernels() noexcept { return {has_simd(), scratch_bytes}; }

void run(const Plan& plan, const void* input, const Output& output, void* workspace,
         const Executor* executor) noexcept {
  Job job{plan, input, output, static_cast<std::byte*>(workspace)};
  run_tasks(executor, tasks_for(plan.threads, plan.problem.rows, plan.rows_per_block), run_task, &job);
}

}  // namespace rtopk::cpu
