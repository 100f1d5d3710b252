// From a plan and a call that were checked to a kernel on a stream.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "backend.hpp"
#include "call.hpp"
#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "device_guard.hpp"
#include "expectation.hpp"
#include "gather.hpp"
#include "gather_shape.hpp"
#include "launch.hpp"
#include "runtime.hpp"
#include "workspace.hpp"

namespace rtopk::cuda {
namespace {

/// The widest access, in bytes, that keeps to whole rows of `row_bytes` at `address` and every `pitch` bytes from there.
std::int32_t widest_access(const void* address, std::int64_t pitch, std::int64_t row_bytes) {
  const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(address) | static_cast<std::uint64_t>(pitch) |
                             static_cast<std::uint64_t>(row_bytes) | 16u;
  return static_cast<std::int32_t>(bits & -bits);
}

Call make_call(const Plan& plan, const void* input, const Output& output) {
  const Problem& problem = plan.problem;
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  Call call;
  call.input = input;
  call.rows = problem.rows;
  call.cols = problem.cols;
  call.stride = core::stride_of(problem);
  call.k = problem.k;
  if (core::writes_values(problem)) call.values = output.values;
  if (core::writes_indices(problem)) call.indices = output.indices;
  call.dense = output.dense;
  call.mask = output.mask;
  if (problem.passes) call.passes = output.passes;
  call.index_type = problem.index_type;
  call.form = problem.form;
  call.smallest = problem.direction == Direction::smallest;
  call.by_value = problem.order == Order::by_value;
  call.bisection = problem.max_iter > 0 || problem.epsilon > 0 || problem.search == Search::bisection;
  call.max_iter = problem.max_iter;
  call.epsilon = problem.epsilon;
  call.access_bytes = widest_access(input, problem.rows > 1 ? call.stride * element : 0, problem.cols * element);
  call.dense_access_bytes = widest_access(output.dense, problem.cols * element, problem.cols * element);
  call.mask_access_bytes = widest_access(output.mask, problem.cols, problem.cols);
  call.writes_quads = call.values != nullptr && call.indices != nullptr && problem.k % 4 == 0 &&
                      widest_access(call.values, 0, 4 * element) >= std::min<std::int64_t>(16, 4 * element) &&
                      widest_access(call.indices, 0, 0) >= 16;
  constexpr std::int64_t kSparedBytes = std::int64_t{256} << 20;  // a few times what caches have
  call.spares_cache = problem.rows <= kSparedBytes / std::max(problem.cols * element, std::int64_t{1});
  if (!call.bisection) call.expectation = expectation_of(problem.cols, problem.k);
  return call;
}

template <class T>
cudaError_t launch_family(const Plan& plan, Call& call, const Grid& grid) {
  switch (plan.family) {
    case Family::cuda_warp:
      call.units_per_worker = plan.rows_per_block * plan.lanes_per_row / plan.threads;
      return launch_warp<T>(plan, call, grid);
    case Family::cuda_tournament:
      call.units_per_worker = plan.rows_per_block * plan.lanes_per_row / plan.threads;
      return launch_tournament<T>(plan, call, grid);
    case Family::cuda_block: call.units_per_worker = plan.rows_per_block; return launch_block<T>(plan, call, grid);
    case Family::cuda_filter: return launch_filter<T>(plan, call, grid);
    case Family::cuda_cluster: return launch_cluster<T>(plan, call, grid);
    case Family::cuda_scan: return launch_scan<T>(plan, call, grid);
    default: return launch_radix<T>(plan, call, grid);
  }
}

template <class T>
cudaError_t launch_all(const Plan& plan, Call& call, const Grid& grid, char* workspace) {
  const WorkspaceLayout layout = workspace_of(plan);
  call.workspace = workspace + layout.family;
  const bool sorts = sorts_afterwards(plan);
  if (sorts) {
    call.by_value = false;
    if (call.indices == nullptr) {
      call.indices = workspace + layout.indices;
      call.index_type = call.cols > std::int64_t{0x7fffffff} ? IndexType::i64 : IndexType::i32;
    }
  }
  if (const cudaError_t error = launch_family<T>(plan, call, grid); error != cudaSuccess || !sorts) return error;
  call.workspace = workspace + layout.sort;
  return launch_sort<T>(plan, call, grid);
}

/// Queues a plan whose rows are read where they lie.
cudaError_t run_in_place(const Plan& plan, const void* input, const Output& output, char* workspace,
                         cudaStream_t stream) {
  Call call = make_call(plan, input, output);
  const Grid grid{plan.blocks, plan.threads, plan.shared_bytes, plan.problem.device.ordinal, stream};
  return core::with_element_type(plan.problem.dtype,
                                 [&]<class T>(T*) { return launch_all<T>(plan, call, grid, workspace); });
}

/// The outputs from a row on.
Output output_from(const Problem& problem, const Output& output, std::int64_t row) {
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const auto index = static_cast<std::int64_t>(size_of(problem.index_type));
  const auto at = [](void* array, std::int64_t bytes) -> void* {
    return array == nullptr ? nullptr : static_cast<char*>(array) + bytes;
  };
  Output result = output;
  if (core::writes_values(problem)) result.values = at(output.values, row * problem.k * element);
  if (core::writes_indices(problem)) result.indices = at(output.indices, row * problem.k * index);
  if (problem.form == Form::dense) result.dense = at(output.dense, row * problem.cols * element);
  if (problem.form == Form::mask) result.mask = output.mask + row * problem.cols;
  if (problem.passes) result.passes = output.passes + row;
  return result;
}

/// Queues one chunk after the other: all in the same workspace, since those of a stream do not overlap.
cudaError_t run_gathered(const Plan& plan, const void* input, const Output& output, char* workspace,
                         cudaStream_t stream) {
  const Problem& problem = plan.problem;
  const WorkspaceLayout layout = workspace_of(plan);
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t group_rows = core::group_rows_of(problem);
  for (std::int64_t row = 0; row < problem.rows; row += plan.chunk_rows) {
    const Plan chunk = chunk_plan(plan, std::min(plan.chunk_rows, problem.rows - row));
    const GatherCall gather{
        .input = static_cast<const char*>(input) + row / group_rows * problem.group_stride * element,
        .output = workspace + layout.rows,
        .rows = chunk.problem.rows,
        .cols = problem.cols,
        .row_stride = core::stride_of(problem),
        .element_stride = core::element_stride_of(problem),
        .group_rows = group_rows,
        .group_stride = problem.group_stride,
        .first = row % group_rows};
    cudaError_t error = launch_gather(gather, size_of(problem.dtype), stream);
    if (error != cudaSuccess) return error;
    error = run_in_place(chunk, gather.output, output_from(problem, output, row), workspace + layout.family, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

Status run(const Plan& plan, const void* input, const Output& output, void* workspace, void* stream) noexcept {
  const DeviceGuard device(plan.problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  const auto queue = plan.chunk_rows > 0 ? run_gathered : run_in_place;
  return launched(queue(plan, input, output, aligned_base(workspace), static_cast<cudaStream_t>(stream)));
}

}  // namespace rtopk::cuda
