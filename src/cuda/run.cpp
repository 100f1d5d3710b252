// From a plan and a call that were checked to a kernel on a stream.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "backend.hpp"
#include "block_shape.hpp"
#include "call.hpp"
#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "device_guard.hpp"
#include "expectation.hpp"
#include "launch.hpp"
#include "runtime.hpp"
#include "split_shape.hpp"
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

/// A block for each row of `cols` elements.
template <class T>
cudaError_t launch_block_per_row(std::int64_t cols, const Call& call, Grid grid) {
  cudaError_t error = cudaErrorInvalidValue;
  for_block_variants([&]<int W>() {
    using Shape = BlockShape<T, W>;
    if (cols > Shape::kCols) return false;
    grid.blocks = call.rows;
    grid.threads = Shape::kThreads;
    grid.shared_bytes = static_cast<std::size_t>(Shape::shared_bytes(call.k));
    error = launch_block<T>(Plan{}, call, grid);
    return true;
  });
  return error;
}

/// The winners of the parts of a row are in index order, part after part; so ties among them go to the lowest index too.
template <class T>
cudaError_t launch_split(const Plan& plan, const Call& whole, const Grid& grid) {
  const Problem& problem = plan.problem;
  const SplitLayout layout = split_layout(plan);
  char* workspace = static_cast<char*>(whole.workspace);
  auto* values = reinterpret_cast<T*>(workspace + layout.values);
  auto* columns = reinterpret_cast<std::int32_t*>(workspace + layout.columns);
  const std::int64_t index_bytes = static_cast<std::int64_t>(size_of(problem.index_type));
  const std::int64_t rows_at_once = split_rows_at_once(plan);
  const std::int64_t winners = plan.parts * problem.k;

  Call parts = whole;
  parts.parts = plan.parts;
  parts.part_cols = part_cols(problem, plan.parts);
  parts.values = values;
  parts.indices = columns;
  parts.index_type = IndexType::i32;
  parts.passes = nullptr;
  parts.units_per_worker = plan.rows_per_block;
  parts.expectation = expectation_of(parts.part_cols, problem.k);

  Call merge = whole;
  merge.input = values;
  merge.columns = columns;
  merge.cols = winners;
  merge.stride = winners;
  merge.access_bytes = widest_access(values, winners * static_cast<std::int64_t>(sizeof(T)),
                                     winners * static_cast<std::int64_t>(sizeof(T)));
  merge.units_per_worker = 1;
  // What the parts have selected is what a row's greatest elements are, so the rows of winners are not normal: the first
  // guess is poor, and there are few of them.
  merge.expectation = expectation_of(winners, problem.k);

  cudaError_t error = cudaSuccess;
  for (std::int64_t row = 0; row < problem.rows && error == cudaSuccess; row += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, problem.rows - row);
    parts.rows = rows;
    parts.input = static_cast<const T*>(whole.input) + row * whole.stride;
    Grid of_parts = grid;
    of_parts.blocks = (rows * plan.parts + plan.rows_per_block - 1) / plan.rows_per_block;
    error = launch_block<T>(plan, parts, of_parts);
    if (error != cudaSuccess) break;
    merge.rows = rows;
    if (whole.values != nullptr) merge.values = static_cast<T*>(whole.values) + row * problem.k;
    if (whole.indices != nullptr) merge.indices = static_cast<char*>(whole.indices) + row * problem.k * index_bytes;
    if (whole.passes != nullptr) merge.passes = whole.passes + row;
    error = launch_block_per_row<T>(winners, merge, grid);
  }
  return error;
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
    case Family::cuda_split: return launch_split<T>(plan, call, grid);
    case Family::cuda_filter: return launch_filter<T>(plan, call, grid);
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

}  // namespace

Status run(const Plan& plan, const void* input, const Output& output, void* workspace, void* stream) noexcept {
  const Problem& problem = plan.problem;
  const DeviceGuard device(problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  Call call = make_call(plan, input, output);
  const Grid grid{plan.blocks, plan.threads, plan.shared_bytes, problem.device.ordinal,
                  static_cast<cudaStream_t>(stream)};
  auto* aligned = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(workspace) + 255) / 256 * 256);
  const cudaError_t error =
      core::with_element_type(problem.dtype, [&]<class T>(T*) { return launch_all<T>(plan, call, grid, aligned); });
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // it was reported here; the caller's own checks must not find it again
  return runtime_error("launch", error);
}

}  // namespace rtopk::cuda
