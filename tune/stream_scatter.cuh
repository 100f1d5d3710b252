// cuda_scatter: dX = (A^T dY) at the selectors, by the rows of A. A warp takes some rows that follow each other, and their edges
// as one stream. It has a row of dY in shared memory, and the next one is on its way; for every edge it reads the selectors of
// the node, picks what they name and adds it to the node's sums in global memory.
#pragma once

#include "cuda/aggregate_scatter.cuh"
#include "cuda/async_copy.cuh"
#include "stream.cuh"

namespace rtopk::cuda::tuned {

/// kPlaced: a product goes to the place of its edge in A^T instead (call.degree_starts: the places).
template <class T, class Selector, class Index, bool kWeighted, int V, int kLoads, bool kPlaced>
class RowScatterer {
 public:
  /// `rows`: two rows of dY, each of `pitch` elements.
  __device__ RowScatterer(const AggregateCall& call, T* rows, int pitch, int lane)
      : call_(call), rows_(rows), pitch_(pitch), lane_(lane) {
    while (lanes_ < 32 && lanes_ * V < call.k) lanes_ *= 2;
  }

  __device__ void work(std::int32_t number) {
    tuned::for_runs(call_, number, lane_, true, [&](const Run& run) {
      if (run.edges == 0 || call_.graph.nodes == 0) return;
      for (int element = 0; element < call_.k; element += lanes_ * V) scatter(run, element);
    });
  }

 private:
  /// Starts to copy a row of dY.
  __device__ void fetch(const Run& run, int row, int buffer) {
    if (row >= 32) return;
    const T* from = static_cast<const T*>(call_.gradient) + std::int64_t{run.row + row} * call_.cols;
    T* to = rows_ + buffer * pitch_;
    if (call_.writes_quads) {  // here: rows of dY are multiples of 16 bytes
      constexpr int kQuad = 16 / static_cast<int>(sizeof(T));
      for (int column = lane_ * kQuad; column < call_.cols; column += 32 * kQuad) copy_async<16>(to + column, from + column);
    } else {
      for (int column = lane_; column < call_.cols; column += 32) to[column] = from[column];
    }
    commit_copies();
  }

  __device__ void scatter(const Run& run, int element) {
    const int side_by_side = 32 / lanes_;
    const int turn = kLoads * side_by_side;
    const int edge_of_lane = lane_ / lanes_;
    const int mine = element + lane_ % lanes_ * V;
    const bool has = mine < call_.k;
    const char* selectors = static_cast<const char*>(call_.selectors) + sizeof(Selector) * (has ? mine : 0);
    const int selector_bytes = call_.k * static_cast<int>(sizeof(Selector));

    // Rows that have edges, from the current one on.
    const int previous_end = __shfl_up_sync(kWholeWarp, run.end, 1);
    const int my_begin = lane_ == run.first ? 0 : previous_end;
    unsigned rows = __ballot_sync(kWholeWarp, lane_ >= run.first && lane_ < run.last && run.end > my_begin);
    __syncwarp();  // nobody still reads the row before
    int buffer = 0;
    fetch(run, __ffs(static_cast<int>(rows)) - 1, 0);

    Several<Selector, V> loaded[kLoads];
    std::int32_t nodes[kLoads];
    float weights[kLoads];
    Index next = raw_column_at<Index>(call_.graph, run, lane_);
    std::int32_t next_place = place_at(run, lane_);
    std::int32_t columns = 0;
    std::int32_t places = 0;
    float next_weights = 0.0f;
    unsigned next_exist = 0;
    unsigned exist = 0;
    int at = 0;
    int loaded_to = 0;
    int row_end = 0;
    float scale = 1.0f;
    for (;;) {
      if (at == row_end) {
        if (rows == 0) return;
        const int row = __ffs(static_cast<int>(rows)) - 1;
        rows &= rows - 1;
        __syncwarp();
        if (rows != 0) {
          fetch(run, __ffs(static_cast<int>(rows)) - 1, buffer ^ 1);
          wait_for_copies<1>();
        } else {
          wait_for_copies<0>();
        }
        __syncwarp();
        staged_ = rows_ + buffer * pitch_;
        buffer ^= 1;
        row_end = __shfl_sync(kWholeWarp, run.end, row);
        if (call_.mean) scale = 1.0f / fmaxf(static_cast<float>(row_end - at), 1.0f);  // pieces: not in this experiment
      }
      if (at == loaded_to) {
        if (loaded_to % 32 == 0) {
          const bool exists = next >= 0 && next < call_.graph.nodes;
          columns = exists ? static_cast<std::int32_t>(next) : 0;
          places = next_place;
          next_exist = __ballot_sync(kWholeWarp, exists);
          next = raw_column_at<Index>(call_.graph, run, loaded_to + 32 + lane_);
          next_place = place_at(run, loaded_to + 32 + lane_);
          if constexpr (kWeighted) {
            next_weights = loaded_to + lane_ < run.edges ? __ldcs(call_.graph.weights + run.begin + loaded_to + lane_) : 0.0f;
          }
        }
        exist = next_exist;
#pragma unroll
        for (int l = 0; l < kLoads; ++l) {
          const int number = l * side_by_side + edge_of_lane;
          nodes[l] = __shfl_sync(kWholeWarp, columns, number);
          loaded[l] = load_several<V>(
              reinterpret_cast<const Selector*>(selectors + std::int64_t{nodes[l]} * selector_bytes));
          if constexpr (kWeighted) weights[l] = __shfl_sync(kWholeWarp, next_weights, number);
          if constexpr (kPlaced) nodes[l] = __shfl_sync(kWholeWarp, places, number);
        }
        loaded_to += turn;
        next_exist = turn < 32 ? next_exist >> turn : 0u;
        columns = __shfl_sync(kWholeWarp, columns, lane_ + turn);
        if constexpr (kPlaced) places = __shfl_sync(kWholeWarp, places, lane_ + turn);
        if constexpr (kWeighted) next_weights = __shfl_sync(kWholeWarp, next_weights, lane_ + turn);
      }
      const int until = min(row_end, loaded_to);
      const int behind = loaded_to - turn;
      const unsigned wanted = exist & bits_below(until - behind) & ~bits_below(at - behind);
#pragma unroll
      for (int l = 0; l < kLoads; ++l) {
        if (has && (wanted >> (l * side_by_side + edge_of_lane) & 1u) != 0) {
          float picked[V];
#pragma unroll
          for (int i = 0; i < V; ++i) {
            picked[i] = pick(loaded[l].each[i]) * scale;
            if constexpr (kWeighted) picked[i] *= weights[l];
          }
          float* to = call_.atomic_sums + std::int64_t{nodes[l]} * call_.k + mine;
          if constexpr (kPlaced) {
            static_assert(V == 4);
            *reinterpret_cast<float4*>(to) = float4{picked[0], picked[1], picked[2], picked[3]};
          } else {
            add_to_global<V>(to, picked);
          }
        }
      }
      at = until;
    }
  }

  [[nodiscard]] __device__ std::int32_t place_at(const Run& run, int edge) const {
    if constexpr (!kPlaced) return 0;
    return edge < run.edges ? __ldcs(static_cast<const std::int32_t*>(call_.degree_starts) + run.begin + edge) : 0;
  }

  [[nodiscard]] __device__ float pick(Selector selector) const {
    if (sizeof(Selector) > 1 && static_cast<int>(selector) >= call_.cols) return 0.0f;
    return Element<T>::value(staged_[selector]);
  }

  const AggregateCall& call_;
  T* rows_;
  const T* staged_ = nullptr;
  int pitch_;
  int lane_;
  int lanes_ = kLoads;  ///< Of an edge: a power of two, such that 32 edges or fewer are under way.
};

template <class T, class Selector, class Index, bool kWeighted, int V, int kLoads, int kBlocks, bool kPlaced = false>
__global__ void __launch_bounds__(kAggregateThreads, kBlocks)
    scatter_stream_kernel(const __grid_constant__ AggregateCall call) {
  extern __shared__ __align__(16) char shared[];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int pitch = call.cols <= 256 ? 256 : (call.cols + 15) / 16 * 16;
  RowScatterer<T, Selector, Index, kWeighted, V, kLoads, kPlaced> rows(call, reinterpret_cast<T*>(shared) + warp * 2 * pitch,
                                                                      pitch, lane);
  rows.work(static_cast<int>(blockIdx.x) * (kAggregateThreads / 32) + warp);
}

/// Experiment: sums of products that lie in the order of A^T; a warp has a node or a piece of it. k = 32.
template <int kLoads>
__global__ void __launch_bounds__(kAggregateThreads) sum_products_kernel(const __grid_constant__ AggregateCall call) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float* products = static_cast<const float*>(call.gradient);
  for_pieces(call, static_cast<int>(blockIdx.x) * (kAggregateThreads / 32) + static_cast<int>(threadIdx.x) / 32, lane,
             [&](const Piece& piece) {
               const float* from = products + piece.begin * 32 + lane;
               float sum = 0.0f;
               int edge = 0;
#pragma unroll 1
               for (; edge + kLoads <= piece.edges; edge += kLoads) {
                 float x[kLoads];
#pragma unroll
                 for (int l = 0; l < kLoads; ++l) x[l] = __ldcs(from + (edge + l) * 32);
#pragma unroll
                 for (int l = 0; l < kLoads; ++l) sum += x[l];
               }
               for (; edge < piece.edges; ++edge) sum += __ldcs(from + edge * 32);
               if (piece.slot >= 0) {
                 call.partial_sums[std::int64_t{piece.slot} * 32 + lane] = sum;
               } else {
                 static_cast<float*>(call.result)[std::int64_t{piece.row} * 32 + lane] = sum;
               }
             });
}

}  // namespace rtopk::cuda::tuned
