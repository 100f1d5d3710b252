#include "selection/chunked.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include <rtopk/rtopk.hpp>

#include "terminal/failure.hpp"

namespace rtopk::tool {
namespace {

// Bytes of input and results in a chunk: enough rows to keep every thread busy, in little memory.
constexpr std::uint64_t chunk_bytes = std::uint64_t{32} << 20;

}  // namespace

Plan plan_for_rows(const Problem& problem, const Traits& traits, std::int64_t rows) {
  Problem part = problem;
  part.rows = rows;
  Plan plan;
  require(make_plan(part, traits, plan));
  return plan;
}

ChunkedRun select_in_chunks(MatrixSource& source, const Problem& problem, const Traits& traits, std::int64_t chunk_rows,
                            const TakeChunk& take, const RowFiles* files) {
  const bool on_gpu = problem.device.kind == DeviceKind::cuda;
  return (on_gpu ? select_on_gpu : select_on_cpu)(source, problem, traits, chunk_rows, take, files);
}

ChunkedRun select_on_cpu(MatrixSource& source, const Problem& problem, const Traits& traits, std::int64_t chunk_rows,
                         const TakeChunk& take, const RowFiles* files) {
  using Clock = std::chrono::steady_clock;
  const bool is_flat = files != nullptr && files->is_flat();
  if (is_flat) {
    chunk_rows = problem.rows;
  } else if (chunk_rows == 0) {
    const std::uint64_t bytes_per_row = source.row_bytes() + result_bytes_per_row(problem);
    chunk_rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(chunk_bytes / bytes_per_row));
  }
  chunk_rows = std::min(chunk_rows, problem.rows);
  const ResultBuffers buffers(problem, chunk_rows);
  std::vector<std::byte> workspace;
  ChunkedRun result{.plan = plan_for_rows(problem, traits, chunk_rows)};
  for (std::int64_t first = 0; first < problem.rows; first += chunk_rows) {
    const std::int64_t rows = std::min(chunk_rows, problem.rows - first);
    const Plan plan = rows == chunk_rows ? result.plan : plan_for_rows(problem, traits, rows);
    workspace.resize(std::max(workspace.size(), plan.workspace_bytes));
    const void* const input = is_flat ? source.rows_at(0, 1) : source.rows_at(first, rows);
    const RowArrays arrays = files == nullptr ? RowArrays{} : files->from(first);
    const Clock::time_point start = Clock::now();
    require(run(plan, input, buffers.output(), {workspace.data(), workspace.size()}, {}, arrays));
    result.select_s += std::chrono::duration<double>(Clock::now() - start).count();
    if (!take({.first = first, .rows = rows, .input = input, .results = &buffers})) break;
  }
  return result;
}

}  // namespace rtopk::tool
