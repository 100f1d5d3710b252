// Executes a checked plan and call of an aggregation: fills the kernel arguments and launches on a stream.
#include <cuda_runtime_api.h>

#include <bit>

#include "core/keys.hpp"
#include "cuda/aggregate/launch.hpp"
#include "cuda/backend.hpp"
#include "cuda/runtime/device_guard.hpp"
#include "cuda/runtime/errors.hpp"
#include "cuda/runtime/workspace.hpp"
#include "plan/tuning_aggregate.hpp"

namespace rtopk::cuda {
namespace {

bool is_aligned(const void* address, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

/// How many elements of a node can be accessed at once: 1, 2 or 4.
int vector_for(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, const float* atomic_sums) {
  const gnn::Aggregation& p = plan.problem;
  for (const int vector : {4, 2}) {
    const auto several = static_cast<std::size_t>(vector);
    if (p.k % vector == 0 && is_aligned(call.selectors, several * size_of(p.selector_type)) &&
        (p.term != gnn::AggregationTerm::forward || is_aligned(call.values, several * size_of(p.dtype))) &&
        is_aligned(atomic_sums, several * sizeof(float))) {
      return vector;
    }
  }
  return 1;
}

AggregateArguments make_call(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, char* workspace) {
  const gnn::Aggregation& p = plan.problem;
  const bool gathers = plan.needs_transposed();
  const gnn::Graph& graph = gathers ? call.transposed : call.graph;
  const AggregateWorkspace layout = aggregate_workspace(plan);
  AggregateArguments made;
  made.graph = {.row_starts = graph.row_starts,
                .columns = graph.columns,
                .weights = p.weighted ? graph.weights : nullptr,
                .edges = p.edges,
                .rows = static_cast<std::int32_t>(walked_rows(plan)),
                .nodes = static_cast<std::int32_t>(gathers ? p.rows : p.nodes),
                .wide = p.graph_index_type == IndexType::i64};
  if (gathers && p.mean) made.degree_starts = call.graph.row_starts;
  made.values = call.values;
  made.selectors = call.selectors;
  made.gradient = call.gradient;
  made.result = call.result;
  made.slots = made.graph.rows > 0 ? static_cast<std::int32_t>(slots_of(plan)) : 0;
  if (!scatters(plan)) {
    made.slot_rows = reinterpret_cast<std::int32_t*>(workspace + layout.slot_rows);
    made.partial_sums = reinterpret_cast<float*>(workspace + layout.partial_sums);
  } else {
    made.atomic_sums = p.dtype == DType::f32 ? static_cast<float*>(call.result)
                                             : reinterpret_cast<float*>(workspace + layout.atomic_sums);
  }
  made.piece_shift = std::countr_zero(static_cast<std::uint64_t>(plan.piece_edges));
  made.short_edges = static_cast<std::int32_t>(plan.short_edges);
  made.rows_per_worker = static_cast<std::int32_t>(plan.rows_per_worker);
  made.cols = static_cast<std::int32_t>(p.cols);
  made.k = static_cast<std::int32_t>(p.k);
  made.window = static_cast<std::int32_t>(plan.window_cols);
  made.mean = p.mean && !gathers;  // a gather includes it in the factors of its edges
  made.writes_quads = p.cols % 4 == 0 && is_aligned(call.result, 4 * size_of(p.dtype));
  made.copies_quads = static_cast<std::size_t>(p.cols) * size_of(p.dtype) % 16 == 0 && is_aligned(call.gradient, 16);
  return made;
}

}  // namespace

Status run(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, void* workspace, void* stream) noexcept {
  const gnn::Aggregation& problem = plan.problem;
  const DeviceGuard device(problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  char* const aligned = aligned_base(workspace);
  const AggregateArguments made = make_call(plan, call, aligned);
  const int vector = vector_for(plan, call, made.atomic_sums);
  const Grid grid{0, plan.threads, plan.shared_bytes, problem.device.ordinal, static_cast<cudaStream_t>(stream)};
  cudaError_t error = cudaSuccess;
  switch (problem.dtype) {
    case DType::f16: error = launch_aggregation<core::F16>(plan, made, vector, grid); break;
    case DType::bf16: error = launch_aggregation<core::BF16>(plan, made, vector, grid); break;
    default: error = launch_aggregation<float>(plan, made, vector, grid); break;
  }
  return launched(error);
}

}  // namespace rtopk::cuda
