// cuda_scatter: dX = (A^T dY) at the selectors, by the rows of A. A warp has a row of dY in shared memory; for every edge it
// reads the selectors of the node, picks what they name and adds it to the node's sums in global memory. That moves the
// k elements of an edge where a gather moves nearly a row, but the order in which warps add is not fixed.
#pragma once

#include <cstdint>

#include "aggregate_elements.cuh"
#include "aggregate_pieces.cuh"
#include "aggregate_shape.hpp"

namespace rtopk::cuda {

/// Adds to V floats at an address that is a multiple of their size. Nobody waits for it.
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

/// kStaged: the row of dY lies in shared memory, with 256 words or more, so that 8-bit selectors cannot leave it.
/// kLoads, of selectors, are under way together.
template <class T, class Selector, int V, bool kStaged, int kLoads>
class EdgeScatterer {
 public:
  __device__ EdgeScatterer(const AggregateCall& call, float* staged, int lane)
      : call_(call), staged_(staged), lane_(lane) {
    while (lanes_ < 32 && lanes_ * V < call.k) lanes_ *= 2;
    if constexpr (sizeof(Selector) == 1) {  // selectors beyond the columns pick zeros
      for (int column = call.cols + lane; column < 256; column += 32) staged[column] = 0.0f;
    }
  }

  __device__ void scatter(const Piece& piece) {
    if (piece.edges == 0) return;
    const T* gradient = static_cast<const T*>(call_.gradient) + std::int64_t{piece.row} * call_.cols;
    const float scale = call_.mean ? 1.0f / fmaxf(piece.degree, 1.0f) : 1.0f;
    if constexpr (kStaged) {
      __syncwarp();  // nobody still reads the row before
#pragma unroll 4
      for (int column = lane_; column < call_.cols; column += 32) {
        staged_[column] = scale * Element<T>::value(gradient[column]);
      }
      __syncwarp();
    }
    for (int element = 0; element < call_.k; element += lanes_ * V) add(piece, element, gradient, scale);
  }

 private:
  __device__ void add(const Piece& piece, int element, const T* gradient, float scale) {
    const int mine = element + lane_ % lanes_ * V;
    const Selector* selectors = static_cast<const Selector*>(call_.selectors) + mine;
    const int side_by_side = 32 / lanes_;
    std::int32_t next = column_at(call_.graph, piece, lane_);
#pragma unroll 1
    for (int first = 0; first < piece.edges; first += 32) {
      const std::int32_t nodes = next;
      const float weights = call_.graph.weights != nullptr ? weight_at(call_.graph, piece, first + lane_) : 1.0f;
      next = column_at(call_.graph, piece, first + 32 + lane_);
      const int edges = min(32, piece.edges - first);
#pragma unroll 1
      for (int turn = 0; turn < edges; turn += kLoads * side_by_side) {
        Several<Selector, V> loaded[kLoads];
        int node[kLoads];
#pragma unroll
        for (int l = 0; l < kLoads; ++l) {
          const int number = turn + l * side_by_side + lane_ / lanes_;
          node[l] = __shfl_sync(kWholeWarp, nodes, number & 31);
          if (number >= edges || mine >= call_.k) node[l] = -1;
          if (node[l] >= 0) loaded[l] = load_several<V>(selectors + static_cast<std::int64_t>(node[l]) * call_.k);
        }
#pragma unroll
        for (int l = 0; l < kLoads; ++l) {
          float weight = 1.0f;
          if (call_.graph.weights != nullptr) {
            weight = __shfl_sync(kWholeWarp, weights, (turn + l * side_by_side + lane_ / lanes_) & 31);
          }
          if (node[l] < 0) continue;
          float picked[V];
#pragma unroll
          for (int i = 0; i < V; ++i) picked[i] = weight * pick(gradient, scale, loaded[l].each[i]);
          add_to_global<V>(call_.atomic_sums + static_cast<std::int64_t>(node[l]) * call_.k + mine, picked);
        }
      }
    }
  }

  [[nodiscard]] __device__ float pick(const T* gradient, float scale, Selector selector) const {
    if (sizeof(Selector) > 1 && static_cast<int>(selector) >= call_.cols) return 0.0f;
    if constexpr (kStaged) return staged_[selector];
    return scale * Element<T>::value(gradient[selector]);
  }

  const AggregateCall& call_;
  float* staged_;
  int lane_;
  int lanes_ = 1;  ///< Of an edge: a power of two.
};

/// Words of a warp for its row of dY.
inline constexpr __host__ __device__ int scatter_words(int cols) { return cols <= 256 ? 256 : cols; }

template <class T, class Selector, int V, bool kStaged, int kLoads = 4, int kBlocks = 9>
__global__ void __launch_bounds__(kAggregateThreads, kBlocks)
    scatter_kernel(const __grid_constant__ AggregateCall call) {
  extern __shared__ __align__(16) char shared[];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  float* staged = reinterpret_cast<float*>(shared) + (kStaged ? warp * scatter_words(call.cols) : 0);
  EdgeScatterer<T, Selector, V, kStaged, kLoads> rows(call, staged, lane);
  for_pieces(call, static_cast<int>(blockIdx.x) * (kAggregateThreads / 32) + warp, lane,
             [&](const Piece& piece) { rows.scatter(piece); });
}

}  // namespace rtopk::cuda
