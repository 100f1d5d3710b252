// cuda_stream_scatter: dX = (A^T dY) at the selectors, by the rows of A. A warp takes the edges of a batch of rows. It
// has a row of dY in shared memory while the next one is being copied. For every edge it reads the selectors of the
// node, picks these columns of the row and adds them to the node's sums in global memory. The order in which warps add
// is not fixed.
#pragma once

#include <cstdint>

#include "cuda/aggregate/batches.cuh"
#include "cuda/aggregate/elements.cuh"
#include "cuda/runtime/async_copy.cuh"
#include "plan/tuning_aggregate.hpp"

namespace rtopk::cuda {

/// Adds to V floats at an address that is a multiple of their size. Does not wait for the result.
template <int V>
__device__ void add_to_global(float* to, const float (&x)[V]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (V == 4) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
                 : "memory");
  } else if constexpr (V == 2) {
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x[0]), "f"(x[1]) : "memory");
  } else {
    atomicAdd(to, x[0]);
  }
#else
#pragma unroll
  for (int i = 0; i < V; ++i) atomicAdd(to + i, x[i]);
#endif
}

/// kStaged: rows of dY are in shared memory, with at least 256 elements, so that 8-bit selectors cannot point outside.
/// kLoads: loads of selectors in flight.
template <class T, class Selector, bool kWeighted, int V, bool kStaged, int kLoads>
class BatchScatterer {
 public:
  /// `rows`: two rows of dY, each of `pitch` elements.
  __device__ BatchScatterer(const AggregateArguments& args, T* rows, int pitch, int lane)
      : args_(args), rows_(rows), pitch_(pitch), lane_(lane) {
    while (lanes_ < 32 && lanes_ * V < args.last_element - args.first_element) lanes_ *= 2;
    if constexpr (sizeof(Selector) == 1) {  // selectors past the columns pick zeros
      for (int row = 0; row < 2; ++row) {
        for (int column = args.cols + lane; column < pitch; column += 32) rows[row * pitch + column] = T{};
      }
    }
  }

  __device__ void work(std::int32_t number) {
    for_batches(args_, number, lane_, true, [&](const EdgeBatch& batch) {
      if (batch.edges == 0 || args_.graph.nodes == 0) return;
      for (int element = args_.first_element; element < args_.last_element; element += lanes_ * V) {
        scatter(batch, element);
      }
    });
  }

 private:
  [[nodiscard]] __device__ const T* gradient_of(const EdgeBatch& batch, int row) const {
    return static_cast<const T*>(args_.gradient) + std::int64_t{batch.row + row} * args_.cols;
  }

  /// Starts to copy the first of these rows of dY, if there is one.
  __device__ void fetch(const EdgeBatch& batch, unsigned rows, int buffer) {
    if (!kStaged || rows == 0) return;
    const T* from = gradient_of(batch, __ffs(static_cast<int>(rows)) - 1);
    T* to = rows_ + buffer * pitch_;
    if (args_.copies_quads) {
      constexpr int kQuad = 16 / static_cast<int>(sizeof(T));
      for (int column = lane_ * kQuad; column < args_.cols; column += 32 * kQuad) {
        copy_async<16>(to + column, from + column);
      }
    } else {
      for (int column = lane_; column < args_.cols; column += 32) to[column] = from[column];
    }
    commit_copies();
  }

  __device__ void scatter(const EdgeBatch& batch, int element) {
    const int side_by_side = 32 / lanes_;
    const int turn = kLoads * side_by_side;
    const int edge_of_lane = lane_ / lanes_;
    const int mine = element + lane_ % lanes_ * V;
    const bool has = mine < args_.last_element;
    const Selector* selectors = static_cast<const Selector*>(args_.selectors) + (has ? mine : 0);

    // Rows that have edges, from the next one on.
    const int previous_end = __shfl_up_sync(kFullWarp, batch.end, 1);
    const int my_begin = lane_ == batch.first ? 0 : previous_end;
    unsigned rows = __ballot_sync(kFullWarp, lane_ >= batch.first && lane_ < batch.last && batch.end > my_begin);
    __syncwarp();  // nobody still reads the rows of the previous batch
    int buffer = 0;
    fetch(batch, rows, buffer);

    EdgeStream<kWeighted> edges(args_.graph, batch, lane_);
    Several<Selector, V> loaded[kLoads];
    std::int32_t nodes[kLoads];
    float weights[kLoads];
    unsigned exist = 0;
    int at = 0;         // the next edge to add
    int loaded_to = 0;  // the next edge to load
    int row_end = 0;
    float scale = 1.0f;
    for (;;) {
      if (at == row_end) {
        if (rows == 0) return;
        const int row = __ffs(static_cast<int>(rows)) - 1;
        rows &= rows - 1;
        if constexpr (kStaged) {
          __syncwarp();  // nobody still reads the row that is overwritten
          fetch(batch, rows, buffer ^ 1);
          if (rows != 0) {
            wait_for_copies<1>();
          } else {
            wait_for_copies<0>();
          }
          __syncwarp();
          row_ = rows_ + buffer * pitch_;
          buffer ^= 1;
        } else {
          row_ = gradient_of(batch, row);
        }
        row_end = __shfl_sync(kFullWarp, batch.end, row);
        if (args_.mean) scale = 1.0f / batch.degree(at, row_end);
      }
      if (at == loaded_to) {
        edges.begin_turn(loaded_to);
        exist = edges.exist();
#pragma unroll
        for (int l = 0; l < kLoads; ++l) {
          nodes[l] = edges.node(l * side_by_side + edge_of_lane);
          weights[l] = edges.weight(l * side_by_side + edge_of_lane);
          loaded[l] = load_several<V>(selectors + std::int64_t{nodes[l]} * args_.k);
        }
        loaded_to += turn;
        edges.end_turn(turn);
      }
      const int until = min(row_end, loaded_to);
      const int behind = loaded_to - turn;
      const unsigned wanted = exist & bits_below(until - behind) & ~bits_below(at - behind);
#pragma unroll
      for (int l = 0; l < kLoads; ++l) {
        if (has && (wanted >> (l * side_by_side + edge_of_lane) & 1u) != 0) {
          float picked[V];
#pragma unroll
          for (int i = 0; i < V; ++i) picked[i] = weights[l] * (scale * pick(loaded[l].each[i]));
          add_to_global<V>(args_.atomic_sums + std::int64_t{nodes[l]} * args_.k + mine, picked);
        }
      }
      at = until;
    }
  }

  [[nodiscard]] __device__ float pick(Selector selector) const {
    if (sizeof(Selector) > 1 && static_cast<int>(selector) >= args_.cols) return 0.0f;
    return as_float(row_[selector]);
  }

  const AggregateArguments& args_;
  T* rows_;
  const T* row_ = nullptr;  ///< The row of dY that edges pick from.
  int pitch_;
  int lane_;
  int lanes_ = kLoads;  ///< Of an edge: a power of two, so that at most 32 edges are in flight.
};

/// Blocks on a multiprocessor: as many as registers allow.
template <class Selector, bool kWeighted, int V>
constexpr int stream_scatter_blocks() {
  if (sizeof(Selector) > 1 || kWeighted) return 6;
  return V == 2 ? 7 : 8;
}

template <class T, class Selector, bool kWeighted, int V, bool kStaged, int kLoads = 2,
          int kBlocks = stream_scatter_blocks<Selector, kWeighted, V>()>
__global__ void __launch_bounds__(kAggregateThreads, kBlocks)
    stream_scatter_kernel(const __grid_constant__ AggregateArguments args) {
  extern __shared__ __align__(16) char shared[];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto pitch = kStaged ? static_cast<int>(stream_scatter_pitch(args.cols)) : 0;
  BatchScatterer<T, Selector, kWeighted, V, kStaged, kLoads> rows(args, reinterpret_cast<T*>(shared) + warp * 2 * pitch,
                                                                  pitch, lane);
  rows.work(static_cast<int>(blockIdx.x) * (kAggregateThreads / 32) + warp);
}

}  // namespace rtopk::cuda
