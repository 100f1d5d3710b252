// Executes a checked plan and call: fills the kernel arguments and launches on a stream.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "core/rows.hpp"
#include "cuda/backend.hpp"
#include "cuda/runtime/device_guard.hpp"
#include "cuda/runtime/errors.hpp"
#include "cuda/runtime/workspace.hpp"
#include "cuda/select/arguments.hpp"
#include "cuda/select/expectation.hpp"
#include "cuda/select/gather/launch.hpp"
#include "cuda/select/launch.hpp"
#include "plan/cuda.hpp"
#include "plan/select/cuda_configs.hpp"
#include "plan/select/tuning_gather.hpp"
#include "plan/select/workspace.hpp"

namespace rtopk::cuda {
namespace {

/// The widest access, in bytes, that is aligned in every row and divides `row_bytes`. Rows lie `pitch` bytes apart.
std::int32_t widest_access(const void* address, std::int64_t pitch, std::int64_t row_bytes) {
  const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(address) | static_cast<std::uint64_t>(pitch) |
                             static_cast<std::uint64_t>(row_bytes) | 16u;
  return static_cast<std::int32_t>(bits & -bits);
}

SelectArguments make_arguments(const Plan& plan, const void* input, const Output& output) {
  const Problem& problem = plan.problem;
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  SelectArguments args;
  args.input = input;
  args.rows = problem.rows;
  args.cols = problem.cols;
  args.stride = core::stride_of(problem);
  args.k = problem.k;
  if (core::writes_values(problem)) args.values = output.values;
  if (core::writes_indices(problem)) args.indices = output.indices;
  args.dense = output.dense;
  args.mask = output.mask;
  if (problem.passes) args.passes = output.passes;
  args.index_type = problem.index_type;
  args.form = problem.form;
  args.smallest = problem.direction == Direction::smallest;
  args.by_value = problem.order == Order::by_value;
  args.magnitude = problem.magnitude;
  // Integers compare as minus their absolute value.
  if (problem.magnitude && problem.dtype == DType::i32) args.smallest = !args.smallest;
  args.bisection = core::bisects(problem);
  args.passes_in_warp = core::makes_passes(problem);
  args.max_iter = problem.max_iter;
  args.rule = problem.rule;
  args.epsilon = problem.epsilon;
  args.access_bytes = widest_access(input, problem.rows > 1 ? args.stride * element : 0, problem.cols * element);
  args.dense_access_bytes = widest_access(output.dense, problem.cols * element, problem.cols * element);
  args.mask_access_bytes = widest_access(output.mask, problem.cols, problem.cols);
  args.writes_quads = args.values != nullptr && args.indices != nullptr && problem.k % 4 == 0 &&
                      widest_access(args.values, 0, 4 * element) >= std::min<std::int64_t>(16, 4 * element) &&
                      widest_access(args.indices, 0, 0) >= 16;
  constexpr std::int64_t kSparedBytes = std::int64_t{256} << 20;  // a few times the size of caches
  args.spares_cache = problem.rows <= kSparedBytes / std::max(problem.cols * element, std::int64_t{1});
  args.expectation = expectation_of(problem.cols, problem.k);
  return args;
}

RowRules make_rules(const Plan& plan, const RowArrays& arrays, const Output& output) {
  const Problem& problem = plan.problem;
  RowRules rules;
  rules.ragged = problem.ragged;
  rules.arrays = arrays;
  rules.map = core::whole_map(problem);
  if (problem.thresholds) rules.thresholds = output.thresholds;
  core::with_element_type(problem.dtype, [&]<class T>(T*) {
    rules.losing_bits = core::losing_bits<T>(problem.direction == Direction::smallest, problem.magnitude);
  });
  return rules;
}

/// A plan does not know the address of the first row.
template <class T>
cudaError_t launch_warp_rows(Plan plan, SelectArguments& args, const RowRules* rules, Grid grid) {
  if (rules != nullptr) {
    args.batch_length = plan.rows_per_block * plan.lanes_per_row / plan.threads;
    return launch_ragged<T>(plan, args, rules, grid);
  }
  constexpr int kNarrowestCopy = 4;  // bytes that the hardware copies to shared memory
  const bool copies_elements = args.access_bytes < kNarrowestCopy && !args.passes_in_warp;
  if (!args.passes_in_warp && args.access_bytes != 16) {
    const bool changed = use_unaligned_rows(plan) || (copies_elements && use_block(plan));
    if (changed) grid = {plan.blocks, plan.threads, plan.shared_bytes, grid.device, grid.stream};
  }
  if (plan.family == Family::cuda_block) return launch_block<T>(plan, args, rules, grid);
  args.batch_length = plan.rows_per_block * plan.lanes_per_row / plan.threads;
  return launch_warp<T>(plan, args, rules, grid);
}

template <class T>
cudaError_t launch_family(const Plan& plan, SelectArguments& args, const RowRules* rules, const Grid& grid) {
  switch (plan.family) {
    case Family::cuda_warp: return launch_warp_rows<T>(plan, args, rules, grid);
    case Family::cuda_tournament:
      args.batch_length = plan.rows_per_block * plan.lanes_per_row / plan.threads;
      return rules != nullptr ? launch_uneven<T>(plan, args, rules, grid)
                              : launch_tournament<T>(plan, args, rules, grid);
    case Family::cuda_block: return launch_block<T>(plan, args, rules, grid);
    case Family::cuda_filter: return launch_filter<T>(plan, args, rules, grid);
    case Family::cuda_cluster: return launch_cluster<T>(plan, args, rules, grid);
    case Family::cuda_scan: return launch_scan<T>(plan, args, rules, grid);
    default: return launch_radix<T>(plan, args, rules, grid);
  }
}

template <class T>
cudaError_t launch_all(const Plan& plan, SelectArguments& args, RowRules* rules, const Grid& grid, char* workspace) {
  const WorkspaceLayout layout = workspace_of(plan);
  args.workspace = workspace + layout.family;
  const bool sorts = sorts_afterwards(plan);
  if (needs_indices(plan) && args.indices == nullptr) {
    args.indices = workspace + layout.indices;
    args.index_type = args.cols > std::int64_t{0x7fffffff} ? IndexType::i64 : IndexType::i32;
  }
  if (sorts) args.by_value = false;
  if (rules != nullptr) rules->finishes = !sorts;
  if (const cudaError_t error = launch_family<T>(plan, args, rules, grid); error != cudaSuccess || !sorts) return error;
  if (rules != nullptr) rules->finishes = true;
  args.workspace = workspace + layout.sort;
  return launch_sort<T>(plan, args, rules, grid);
}

/// Enqueues a plan whose rows are read in place.
cudaError_t run_in_place(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output,
                         char* workspace, cudaStream_t stream) {
  SelectArguments args = make_arguments(plan, input, output);
  RowRules rules = make_rules(plan, arrays, output);
  RowRules* general = core::is_general(plan.problem) ? &rules : nullptr;
  const Grid grid{plan.blocks, plan.threads, plan.shared_bytes, plan.problem.device.ordinal, stream};
  return core::with_element_type(plan.problem.dtype,
                                 [&]<class T>(T*) { return launch_all<T>(plan, args, general, grid, workspace); });
}

/// The outputs from row `row` on.
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
  if (problem.thresholds) result.thresholds = at(output.thresholds, row * element);
  return result;
}

/// Enqueues one chunk after the other. All use the same workspace, since work of one stream does not overlap.
cudaError_t run_gathered(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output,
                         char* workspace, cudaStream_t stream) {
  const Problem& problem = plan.problem;
  const WorkspaceLayout layout = workspace_of(plan);
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t group_rows = core::group_rows_of(problem);
  for (std::int64_t row = 0; row < problem.rows; row += plan.chunk_rows) {
    const Plan chunk = chunk_plan(plan, std::min(plan.chunk_rows, problem.rows - row));
    const GatherArguments gather{
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
    error = run_in_place(chunk, gather.output, arrays, output_from(problem, output, row), workspace + layout.family,
                         stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

Status run(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output, void* workspace,
           void* stream) noexcept {
  const DeviceGuard device(plan.problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  const auto queue = plan.chunk_rows > 0 ? run_gathered : run_in_place;
  return launched(queue(plan, input, arrays, output, aligned_base(workspace), static_cast<cudaStream_t>(stream)));
}

}  // namespace rtopk::cuda
