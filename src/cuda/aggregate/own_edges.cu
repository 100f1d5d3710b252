// Graphs with one more edge in every row, on a GPU: a thread takes a row. Rows of mini-batches have a few edges each, and
// a graph that is used for long is made once.
#include "core/gnn/own_edges.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "cuda/backend.hpp"
#include "cuda/runtime/device_guard.hpp"
#include "cuda/runtime/errors.hpp"
#include "cuda/runtime/launch.hpp"

namespace rtopk::cuda {
namespace {

constexpr int kThreads = 256;

template <class Index>
__global__ void __launch_bounds__(kThreads)
    write_scales_kernel(const core::RowsWithOwnEdges<Index> rows, const std::int64_t count) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row < count) rows.write_scale(row);
}

/// `count` is one more than there are rows: the last thread writes the end of the row starts.
template <class Index>
__global__ void __launch_bounds__(kThreads)
    write_rows_kernel(const core::RowsWithOwnEdges<Index> rows, const std::int64_t count) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row < count) rows.write_row(row);
}

template <class Index>
cudaError_t write_rows(const gnn::OwnEdges& problem, const core::RowsWithOwnEdges<Index>& rows, Grid grid) {
  static std::atomic<std::uint64_t> allowed[2];
  if (problem.normalized && problem.rows > 0) {
    grid.blocks = (problem.rows + kThreads - 1) / kThreads;
    const cudaError_t error = launch(&write_scales_kernel<Index>, allowed[0], grid, rows, problem.rows);
    if (error != cudaSuccess) return error;
  }
  const std::int64_t count = problem.rows + 1;
  grid.blocks = (count + kThreads - 1) / kThreads;
  return launch(&write_rows_kernel<Index>, allowed[1], grid, rows, count);
}

}  // namespace

Status run(const gnn::OwnEdges& problem, const gnn::Graph& graph, const gnn::OwnEdgesResult& result,
           void* stream) noexcept {
  const DeviceGuard device(problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  const Grid grid{0, kThreads, 0, problem.device.ordinal, static_cast<cudaStream_t>(stream)};
  const cudaError_t error =
      problem.graph_index_type == IndexType::i64
          ? write_rows(problem, core::RowsWithOwnEdges<std::int64_t>(problem, graph, result), grid)
          : write_rows(problem, core::RowsWithOwnEdges<std::int32_t>(problem, graph, result), grid);
  return launched(error);
}

}  // namespace rtopk::cuda
