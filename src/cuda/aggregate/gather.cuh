// cuda_gather: dX = (A^T dY) at the selectors, by the rows of A^T. A warp takes a node. A lane has one of its selectors
// and sums that column of the rows of dY, in the order of the edges. If nodes have few selectors, several edges are
// added at the same time; their sums are merged at the end.
#pragma once

#include <cstdint>

#include "cuda/aggregate/batches.cuh"
#include "cuda/aggregate/elements.cuh"
#include "cuda/runtime/successive_kernels.cuh"
#include "plan/tuning_aggregate.hpp"

namespace rtopk::cuda {

/// The row of A that an edge of a batch names; -1 past the last edge, or if there is no such row.
__device__ inline std::int32_t column_at(const GraphView& graph, const EdgeBatch& batch, int edge) {
  if (edge >= batch.edges) return -1;
  const std::int64_t at = batch.begin + edge;
  const std::int64_t column = graph.wide ? __ldcs(static_cast<const long long*>(graph.columns) + at)
                                         : __ldcs(static_cast<const int*>(graph.columns) + at);
  return column >= 0 && column < graph.nodes ? static_cast<std::int32_t>(column) : -1;
}

/// The weight of an edge of a batch, in a graph with weights; 0 past the last edge.
__device__ inline float weight_at(const GraphView& graph, const EdgeBatch& batch, int edge) {
  return edge < batch.edges ? __ldcs(graph.weights + batch.begin + edge) : 0.0f;
}

/// kLoads: edges of a lane in flight.
template <class T, class Selector, int kLoads>
class NodeGatherer {
 public:
  __device__ NodeGatherer(const AggregateArguments& args, int lane) : args_(args), lane_(lane) {
    while (lanes_ < 32 && lanes_ < args.k) lanes_ *= 2;
  }

  /// `run`: all edges of one node, or a piece of them.
  __device__ void gather(const EdgeBatch& batch) {
    const std::int32_t node = batch.row + batch.first;
    for (int first = 0; first < args_.k; first += lanes_) {
      const int element = first + lane_ % lanes_;
      const bool has = element < args_.k;
      const int column = has ? selector(node, element) : args_.cols;
      const float sum = sum_of(batch, column < args_.cols, column);
      if (!has || lane_ >= lanes_) continue;
      if (batch.slot >= 0) {
        args_.partial_sums[std::int64_t{batch.slot} * args_.k + element] = sum;
      } else {
        static_cast<T*>(args_.result)[std::int64_t{node} * args_.k + element] = rounded<T>(sum);
      }
    }
  }

 private:
  [[nodiscard]] __device__ int selector(std::int32_t node, int element) const {
    return static_cast<const Selector*>(args_.selectors)[std::int64_t{node} * args_.k + element];
  }

  /// The factor of an edge of A^T: its weight, and for a mean divided by the degree of the row of A that it names.
  [[nodiscard]] __device__ float factor_of(const EdgeBatch& batch, int edge, std::int32_t row) const {
    const float weight = args_.graph.weights != nullptr ? weight_at(args_.graph, batch, edge) : 1.0f;
    if (args_.degree_starts == nullptr || row < 0) return weight;
    const bool wide = args_.graph.wide;
    const std::int64_t degree =
        index_at(args_.degree_starts, wide, std::int64_t{row} + 1) - index_at(args_.degree_starts, wide, row);
    return weight / static_cast<float>(max(degree, std::int64_t{1}));
  }

  [[nodiscard]] __device__ float sum_of(const EdgeBatch& batch, bool has, int column) const {
    const T* gradient = static_cast<const T*>(args_.gradient) + column;
    const bool scaled = args_.graph.weights != nullptr || args_.degree_starts != nullptr;
    const int side_by_side = 32 / lanes_;
    float sum = 0.0f;
    std::int32_t next = column_at(args_.graph, batch, lane_);
#pragma unroll 1
    for (int first = 0; first < batch.edges; first += 32) {
      const std::int32_t rows = next;
      const float factors = factor_of(batch, first + lane_, rows);
      next = column_at(args_.graph, batch, first + 32 + lane_);
      const int edges = min(32, batch.edges - first);
#pragma unroll 1
      for (int turn = 0; turn < edges; turn += kLoads * side_by_side) {
        T loaded[kLoads];
        bool exists[kLoads];
#pragma unroll
        for (int l = 0; l < kLoads; ++l) {
          const int number = turn + l * side_by_side + lane_ / lanes_;
          const int row = __shfl_sync(kFullWarp, rows, number & 31);
          exists[l] = has && number < edges && row >= 0;
          if (exists[l]) loaded[l] = load_several<1>(gradient + static_cast<std::int64_t>(row) * args_.cols).each[0];
        }
#pragma unroll
        for (int l = 0; l < kLoads; ++l) {
          float factor = 1.0f;
          if (scaled) {
            factor = __shfl_sync(kFullWarp, factors, (turn + l * side_by_side + lane_ / lanes_) & 31);
          }
          if (exists[l]) sum = fmaf(factor, as_float(loaded[l]), sum);
        }
      }
    }
    for (int distance = 16; distance >= lanes_; distance /= 2) sum += __shfl_xor_sync(kFullWarp, sum, distance);
    return sum;
  }

  const AggregateArguments& args_;
  int lane_;
  int lanes_ = 1;  ///< Of an edge: a power of two.
};

template <class T, class Selector, int kLoads = 8, int kBlocks = 8>
__global__ void __launch_bounds__(kAggregateThreads, kBlocks)
    gather_kernel(const __grid_constant__ AggregateArguments args) {
  let_next_begin();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  NodeGatherer<T, Selector, kLoads> nodes(args, lane);
  for_batches(args, static_cast<int>(blockIdx.x) * (kAggregateThreads / 32) + static_cast<int>(threadIdx.x) / 32, lane,
              false, [&](const EdgeBatch& batch) { nodes.gather(batch); });
}

}  // namespace rtopk::cuda
