// Transposes a graph on a GPU: sorts the edges, each with its row, by column. The sort is stable, so that the edges of
// a column keep their order and the result is unique.
#include <cub/device/device_radix_sort.cuh>

#include <bit>
#include <cstdint>

#include "core/checks.hpp"
#include "core/sizes.hpp"
#include "cuda/aggregate/pieces.cuh"
#include "cuda/backend.hpp"
#include "cuda/runtime/device_guard.hpp"
#include "cuda/runtime/errors.hpp"
#include "cuda/runtime/launch.hpp"
#include "cuda/runtime/workspace.hpp"

namespace rtopk::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEdgesPerWarp = 256;

/// The sort's payload of a column: the edge's row, and in the upper half its weight if there are weights.
using Row = std::uint32_t;
using WeightedRow = unsigned long long;

template <class Payload>
struct Sorted {
  std::uint32_t* columns;  ///< `nodes` if there is no such node, so that it sorts last.
  Payload* rows;
};

/// Finds the row of each edge in the row starts, and writes it with the edge's column as the key.
template <class Payload>
__global__ void __launch_bounds__(kThreads) expand_kernel(const GraphView graph, const Sorted<Payload> to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t warp = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  const std::int64_t first = warp * kEdgesPerWarp;
  if (first >= graph.edges) return;
  const std::int64_t end = min(first + kEdgesPerWarp, graph.edges);
  const std::int32_t first_row = row_of(graph, first, lane);
  const std::int32_t last_row = row_of(graph, end - 1, lane);
  for (std::int64_t edge = first + lane; edge < end; edge += 32) {
    std::int32_t low = first_row;
    std::int32_t high = last_row + 1;
    // Invariant: the row of `edge` is in [low, high).
    while (high - low > 1) {
      const std::int32_t middle = low + (high - low) / 2;
      (index_at(graph.row_starts, graph.wide, middle) > edge ? high : low) = middle;
    }
    const RowRange range = graph.rows > 0 ? range_of(graph, low) : RowRange{};
    const std::int64_t column = index_at(graph.columns, graph.wide, edge);
    const bool exists = column >= 0 && column < graph.nodes && edge >= range.begin && edge < range.end;
    to.columns[edge] = static_cast<std::uint32_t>(exists ? column : graph.nodes);
    Payload payload = static_cast<Payload>(low);
    if constexpr (sizeof(Payload) > sizeof(Row)) {
      payload |= static_cast<Payload>(exists ? __float_as_uint(graph.weights[edge]) : 0u) << 32;
    }
    to.rows[edge] = payload;
  }
}

template <class Index, class Payload>
__global__ void __launch_bounds__(kThreads)
    write_edges_kernel(const Sorted<Payload> from, const std::int64_t edges, const std::int32_t nodes, Index* columns,
                       float* weights) {
  const std::int64_t edge = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (edge >= edges) return;
  const bool exists = from.columns[edge] < static_cast<std::uint32_t>(nodes);
  const Payload payload = from.rows[edge];
  columns[edge] = exists ? static_cast<Index>(static_cast<Row>(payload)) : Index{-1};
  if constexpr (sizeof(Payload) > sizeof(Row)) weights[edge] = __uint_as_float(static_cast<unsigned>(payload >> 32));
}

/// A row of the transposed graph begins at the first of its edges in sorted order.
template <class Index>
__global__ void __launch_bounds__(kThreads) write_starts_kernel(const std::uint32_t* columns, const std::int64_t edges,
                                                                const std::int32_t nodes, Index* starts) {
  const std::int64_t node = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (node > nodes) return;
  std::int64_t low = 0;
  std::int64_t high = edges;
  // Invariant: the edges before `low` have smaller columns than `node`, those from `high` on do not.
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (columns[middle] < static_cast<std::uint32_t>(node)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  starts[node] = static_cast<Index>(low);
}

constexpr std::size_t kAlignment = 256;

/// Parts of the workspace: columns and rows twice, and the memory of the sort.
struct Layout {
  std::size_t columns[2];
  std::size_t rows[2];
  std::size_t sort;
  std::size_t sort_bytes;
  std::size_t bytes;  ///< Includes room to align a base of any address.
};

template <class Payload>
cudaError_t sort_edges(void* memory, std::size_t& bytes, cub::DoubleBuffer<std::uint32_t>& columns,
                       cub::DoubleBuffer<Payload>& rows, const gnn::Transposition& problem, cudaStream_t stream) {
  const int bits = std::bit_width(static_cast<std::uint64_t>(problem.nodes));  // the largest key is `nodes` itself
  return cub::DeviceRadixSort::SortPairs(memory, bytes, columns, rows, problem.edges, 0, bits, stream);
}

template <class Payload>
cudaError_t layout_of(const gnn::Transposition& problem, Layout& layout) {
  cub::DoubleBuffer<std::uint32_t> columns;
  cub::DoubleBuffer<Payload> rows;
  layout = {};
  if (problem.edges == 0) return cudaSuccess;
  if (const cudaError_t error = sort_edges<Payload>(nullptr, layout.sort_bytes, columns, rows, problem, nullptr);
      error != cudaSuccess) {
    return error;
  }
  const auto edges = static_cast<std::size_t>(problem.edges);
  std::size_t bytes = 0;
  for (std::size_t& part : layout.columns) {
    part = bytes;
    bytes += core::round_up(edges * sizeof(std::uint32_t), kAlignment);
  }
  for (std::size_t& part : layout.rows) {
    part = bytes;
    bytes += core::round_up(edges * sizeof(Payload), kAlignment);
  }
  layout.sort = bytes;
  layout.bytes = bytes + layout.sort_bytes + 255;
  return cudaSuccess;
}

template <class Index, class Payload>
cudaError_t transpose(const gnn::Transposition& problem, const gnn::Graph& graph,
                      const gnn::TransposedGraph& transposed, char* workspace, Grid grid) {
  const GraphView view{.row_starts = graph.row_starts,
                       .columns = graph.columns,
                       .weights = problem.weighted ? graph.weights : nullptr,
                       .edges = problem.edges,
                       .rows = static_cast<std::int32_t>(problem.rows),
                       .nodes = static_cast<std::int32_t>(problem.nodes),
                       .wide = sizeof(Index) > 4};
  Layout layout;
  cudaError_t error = layout_of<Payload>(problem, layout);
  if (error != cudaSuccess) return error;
  const auto columns_at = [&](int i) { return reinterpret_cast<std::uint32_t*>(workspace + layout.columns[i]); };
  const auto rows_at = [&](int i) { return reinterpret_cast<Payload*>(workspace + layout.rows[i]); };
  cub::DoubleBuffer<std::uint32_t> columns(columns_at(0), columns_at(1));
  cub::DoubleBuffer<Payload> rows(rows_at(0), rows_at(1));
  static std::atomic<std::uint64_t> allowed[3];
  const auto blocks = [](std::int64_t count, std::int64_t per_block) { return (count + per_block - 1) / per_block; };
  grid.threads = kThreads;
  grid.shared_bytes = 0;
  if (problem.edges > 0) {
    grid.blocks = blocks(problem.edges, kEdgesPerWarp * (kThreads / 32));
    error = launch(&expand_kernel<Payload>, allowed[0], grid, view, Sorted<Payload>{columns_at(0), rows_at(0)});
    if (error != cudaSuccess) return error;
    error = sort_edges<Payload>(workspace + layout.sort, layout.sort_bytes, columns, rows, problem, grid.stream);
    if (error != cudaSuccess) return error;
    grid.blocks = blocks(problem.edges, kThreads);
    error = launch(&write_edges_kernel<Index, Payload>, allowed[1], grid,
                   Sorted<Payload>{columns.Current(), rows.Current()}, problem.edges, view.nodes,
                   static_cast<Index*>(transposed.columns), transposed.weights);
    if (error != cudaSuccess) return error;
  }
  grid.blocks = blocks(problem.nodes + 1, kThreads);
  return launch(&write_starts_kernel<Index>, allowed[2], grid, static_cast<const std::uint32_t*>(columns.Current()),
                problem.edges, view.nodes, static_cast<Index*>(transposed.row_starts));
}

}  // namespace

Status make_plan(const gnn::Transposition& problem, gnn::TranspositionPlan& plan) noexcept {
  constexpr std::int64_t kMaxRows = 0x7fffffff;
  if (problem.rows > kMaxRows || problem.nodes > kMaxRows || problem.edges / kThreads >= kMaxRows) {
    return core::status(
        StatusCode::not_supported,
        "rows is %lld, nodes %lld and edges %lld; accepted on a GPU: up to 2^31 - 1 rows and nodes, and "
        "2^39 edges",
        static_cast<long long>(problem.rows), static_cast<long long>(problem.nodes),
        static_cast<long long>(problem.edges));
  }
  Traits traits;
  if (Status status = cuda::query_traits(problem.device, traits); !status.ok()) return status;
  const DeviceGuard device(problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  Layout layout;
  const cudaError_t error =
      problem.weighted ? layout_of<WeightedRow>(problem, layout) : layout_of<Row>(problem, layout);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return runtime_error("cub::DeviceRadixSort", error);
  }
  plan = {.problem = problem, .workspace_bytes = layout.bytes};
  return {};
}

Status run(const gnn::TranspositionPlan& plan, const gnn::Graph& graph, const gnn::TransposedGraph& transposed,
           void* workspace, void* stream) noexcept {
  gnn::TranspositionPlan needed;
  if (Status status = cuda::make_plan(plan.problem, needed); !status.ok()) return status;
  if (plan.workspace_bytes < needed.workspace_bytes) {
    return core::status(StatusCode::invalid_argument, "plan.workspace_bytes is %zu; accepted: %zu",
                        plan.workspace_bytes, needed.workspace_bytes);
  }
  const gnn::Transposition& problem = plan.problem;
  const DeviceGuard device(problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  char* const aligned = aligned_base(workspace);
  const Grid grid{0, 0, 0, problem.device.ordinal, static_cast<cudaStream_t>(stream)};
  const auto with_payload = [&]<class Index>(Index*) {
    return problem.weighted ? transpose<Index, WeightedRow>(problem, graph, transposed, aligned, grid)
                            : transpose<Index, Row>(problem, graph, transposed, aligned, grid);
  };
  const cudaError_t error = problem.graph_index_type == IndexType::i64
                                ? with_payload(static_cast<std::int64_t*>(nullptr))
                                : with_payload(static_cast<std::int32_t*>(nullptr));
  return launched(error);
}

}  // namespace rtopk::cuda
