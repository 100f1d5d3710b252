// Distributes blocks of rows over tasks, each with its own scratch memory.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "core/placement.hpp"
#include "core/reference.hpp"
#include "core/rows.hpp"
#include "cpu/backend.hpp"
#include "cpu/runtime/floating_environment.hpp"
#include "cpu/runtime/threads.hpp"
#include "cpu/select/general_rows.hpp"
#include "cpu/select/simd_rows.hpp"
#include "plan/select/split.hpp"

namespace rtopk::cpu {
namespace {

struct Job {
  const Plan& plan;
  const void* input;
  const RowArrays& arrays;
  const Output& output;
  std::byte* workspace;
  std::atomic<std::int64_t> next_row{0};
};

void select_rows(const Job& job, std::int64_t begin, std::int64_t end, void* scratch) {
#if defined(RTOPK_HAVE_HIGHWAY)
  if (job.plan.family != Family::reference) {
    if (core::is_general(job.plan.problem)) {
      return general_rows(job.plan, job.input, job.arrays, job.output, begin, end, scratch);
    }
    return simd_rows(job.plan, job.input, job.output, begin, end, scratch);
  }
#endif
  core::reference_rows(job.plan.problem, job.input, job.arrays, job.output, begin, end, scratch);
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
  if (plan.family != Family::reference) {
    return core::is_general(plan.problem) ? general_scratch_bytes(plan) : simd_scratch_bytes(plan);
  }
#endif
  return core::reference_scratch_bytes(plan.problem);
}

void run_whole_rows(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output,
                    std::byte* workspace, const Executor* executor) {
  Job job{plan, input, arrays, output, workspace};
  run_tasks(executor, tasks_for(plan.threads, plan.problem.rows, plan.rows_per_block), run_task, &job);
}

/// Writes the indices of the chosen candidates.
template <class Index>
void write_indices(const Plan& plan, const RowArrays& arrays, const std::int64_t* places, const std::int64_t* chosen,
                   Index* indices) {
  const Problem& problem = plan.problem;
  const std::int64_t part = problem.cols / plan.parts;
  const std::int64_t listed = plan.parts * problem.k;
  const std::int64_t candidates = listed + problem.cols % plan.parts;
  const IndexMap whole = core::whole_map(problem);
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const core::RowMap map = core::RowMap::of(whole, arrays, false, row);
    for (std::int64_t i = row * problem.k; i < (row + 1) * problem.k; ++i) {
      const std::int64_t candidate = chosen[i];
      const std::int64_t column = candidate < listed
                                      ? candidate / problem.k * part + places[row * candidates + candidate]
                                      : plan.parts * part + candidate - listed;
      indices[i] = static_cast<Index>(map.index(0, column));
    }
  }
}

/// Two steps, each of which ends before the next begins: no task waits for another.
void run_split_rows(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output,
                    std::byte* workspace, const Executor* executor) {
  const Problem& problem = plan.problem;
  const std::size_t size = size_of(problem.dtype);
  Plan of_parts = plan;
  of_parts.problem = parts_of_row(problem, plan.parts);
  of_parts.parts = 0;
  Plan of_candidates;
  // It was planned before, to know the workspace: it does not fail.
  static_cast<void>(
      make_plan(candidates_of_rows(problem, plan.parts), Traits{.threads = 1}, std::nullopt, kernels(), of_candidates));
  const SplitLayout layout = split_layout(problem, plan.parts, 0);
  workspace += (SplitLayout::kAlignment - reinterpret_cast<std::uintptr_t>(workspace) % SplitLayout::kAlignment) %
               SplitLayout::kAlignment;
  std::byte* const values = workspace + layout.values;
  auto* const places = reinterpret_cast<std::int64_t*>(workspace + layout.places);
  auto* const chosen = reinterpret_cast<std::int64_t*>(workspace + layout.chosen);
  const auto candidates = static_cast<std::size_t>(of_candidates.problem.cols);
  const auto listed = static_cast<std::size_t>(plan.parts * problem.k);
  const std::size_t left = candidates - listed;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const auto* const elements =
        static_cast<const std::byte*>(input) + static_cast<std::size_t>(core::row_start(problem, row)) * size;
    const std::size_t first = static_cast<std::size_t>(row) * candidates;
    const Output found{.values = values + first * size, .indices = places + first};
    run_whole_rows(of_parts, elements, arrays, found, workspace + layout.scratch, executor);
    std::memcpy(values + (first + listed) * size, elements + (static_cast<std::size_t>(problem.cols) - left) * size,
                left * size);
  }
  const Output best{.values = output.values, .indices = chosen, .thresholds = output.thresholds};
  run_whole_rows(of_candidates, values, arrays, best, workspace + layout.scratch, executor);
  if (!problem.indices) return;
  if (problem.index_type == IndexType::i32) {
    write_indices(plan, arrays, places, chosen, static_cast<std::int32_t*>(output.indices));
  } else {
    write_indices(plan, arrays, places, chosen, static_cast<std::int64_t*>(output.indices));
  }
}

}  // namespace

Kernels kernels() noexcept {
#if defined(RTOPK_HAVE_HIGHWAY)
  if (has_simd()) return {true, simd_vector_bytes(), scratch_bytes};
#endif
  return {false, 0, scratch_bytes};
}

void run(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output, void* workspace,
         const Executor* executor) noexcept {
  const auto run_rows = plan.parts == 0 ? run_whole_rows : run_split_rows;
  run_rows(plan, input, arrays, output, static_cast<std::byte*>(workspace), executor);
}

}  // namespace rtopk::cpu
