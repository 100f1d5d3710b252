// cuda_rows: Y = A X. A warp takes a row and has a sum for every column in shared memory. The elements of an edge are spread
// over lanes, each of which adds its own to their columns: the selectors of a node are distinct, so no two lanes meet.
//
// kEdges edges are added side by side, by 32 / kEdges lanes each, into sums of their own. Each of these sets has 32 / kEdges of
// the 32 banks. A column's bank is its upper bits: selectors ascend, and what the lanes of an edge access together lies
// far apart. For 32 of 256 columns an access then takes 2.1 turns (4 edges) or 2.5 (2 edges), and 3.3 if a warp adds one
// edge at a time.
#pragma once

#include <cstdint>

#include "aggregate_elements.cuh"
#include "aggregate_pieces.cuh"
#include "aggregate_shape.hpp"

namespace rtopk::cuda {

template <int kEdges>
class RowSums {
 public:
  static constexpr int kBanks = 32 / kEdges;

  /// Words of a warp. The 64 behind the last sum are where a selector beyond the columns may lead.
  static constexpr __host__ __device__ int words(int window_shift) { return (32 << window_shift) + 64; }

  __device__ RowSums(float* words, int window_shift, int lane)
      : sums_(words), shift_(window_shift), set_(lane / kBanks), bank_(lane % kBanks) {}

  /// Columns that fit.
  [[nodiscard]] __device__ int window() const { return kBanks << shift_; }

  __device__ void clear(int lane) {
    for (int i = lane; i < words(shift_) / 4; i += 32) reinterpret_cast<float4*>(sums_)[i] = float4{};
    __syncwarp();
  }

  /// The sum of a column in the set of this lane's edge.
  [[nodiscard]] __device__ float* at(unsigned column) const {
    return sums_ + (((column & ((1u << shift_) - 1u)) << 5) + (column >> shift_) + set_ * kBanks);
  }

  /// Calls f(column, sums) with the sums of four columns at a time, until all of the first `cols` were had by some lane,
  /// and makes them zero. Each set begins with another one, which keeps to other banks.
  template <class F>
  __device__ void take(int cols, F&& f) {
    __syncwarp();
#pragma unroll 1
    for (int j = 4 * set_; j < (1 << shift_); j += 4 * kEdges) {
      const int column = (bank_ << shift_) + j;
      if (column >= cols) break;
      float sums[4] = {};
#pragma unroll
      for (int t = 0; t < kEdges; ++t) {
        float* from = sums_ + j * 32 + (set_ + t) % kEdges * kBanks + bank_;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sums[i] += from[32 * i];
          from[32 * i] = 0.0f;
        }
      }
      f(column, sums);
    }
    __syncwarp();
  }

 private:
  float* sums_;
  int shift_;
  int set_;
  int bank_;
};

/// V values of an edge's node and their selectors.
template <class T, class Selector, int V>
struct EdgeElements {
  Several<T, V> values;
  Several<Selector, V> selectors;
  bool exist;
};

template <class T, class Selector, int kEdges, int V, int kLoads>
class RowAggregator {
 public:
  static constexpr int kLanes = 32 / kEdges;         ///< Of an edge.
  static constexpr int kInFlight = kLoads * kEdges;  ///< Edges whose elements are loaded together.

  __device__ RowAggregator(const AggregateCall& call, float* shared, int lane)
      : call_(call), sums_(shared, call.window_shift, lane), lane_(lane) {
    sums_.clear(lane);
  }

  __device__ void aggregate(const Piece& piece) {
    int first_column = 0;
    do {
#pragma unroll 1
      for (int element = 0; element < call_.k; element += kLanes * V) add(piece, element, first_column);
      write(piece, first_column);
      first_column += sums_.window();
    } while (sizeof(Selector) > 1 && first_column < call_.cols);  // 256 columns always fit
  }

 private:
  /// Adds the elements from `element` on, V for each lane of an edge, of all edges.
  __device__ void add(const Piece& piece, int element, int first_column) {
    const int mine = element + lane_ % kLanes * V;
    const T* values = static_cast<const T*>(call_.values) + mine;
    const Selector* selectors = static_cast<const Selector*>(call_.selectors) + mine;
    const bool has = mine < call_.k;
    std::int32_t next = column_at(call_.graph, piece, lane_);
#pragma unroll 1
    for (int first = 0; first < piece.edges; first += 32) {
      const std::int32_t columns = next;
      const float weights = call_.graph.weights != nullptr ? weight_at(call_.graph, piece, first + lane_) : 1.0f;
      next = column_at(call_.graph, piece, first + 32 + lane_);
      const int edges = min(32, piece.edges - first);
#pragma unroll 1
      for (int turn = 0; turn < edges; turn += kInFlight) {
        EdgeElements<T, Selector, V> loaded[kLoads];
#pragma unroll
        for (int l = 0; l < kLoads; ++l) {
          const int column = __shfl_sync(kWholeWarp, columns, turn + l * kEdges + lane_ / kLanes);
          loaded[l].exist = has && column >= 0;
          if (loaded[l].exist) {
            const std::int64_t at = static_cast<std::int64_t>(column) * call_.k;
            loaded[l].values = load_several<V>(values + at);
            loaded[l].selectors = load_several<V>(selectors + at);
          }
        }
#pragma unroll
        for (int l = 0; l < kLoads; ++l) {
          float weight = 1.0f;
          if (call_.graph.weights != nullptr) {
            weight = __shfl_sync(kWholeWarp, weights, turn + l * kEdges + lane_ / kLanes);
          }
          if (loaded[l].exist) add(loaded[l], weight, first_column);
          __syncwarp();  // the next edges may have the same columns in other lanes
        }
      }
    }
  }

  __device__ void add(const EdgeElements<T, Selector, V>& edge, float weight, int first_column) {
    const auto cols = static_cast<unsigned>(min(sums_.window(), call_.cols - first_column));
    float* at[V];
    float sum[V];
    bool inside[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      // 8-bit selectors always lead to words of this warp, and those beyond the columns to words that nobody reads.
      const auto column = static_cast<unsigned>(edge.selectors.each[i]) - static_cast<unsigned>(first_column);
      inside[i] = sizeof(Selector) == 1 || column < cols;
      if (inside[i]) {
        at[i] = sums_.at(column);
        sum[i] = *at[i];
      }
    }
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (inside[i]) *at[i] = fmaf(weight, Element<T>::value(edge.values.each[i]), sum[i]);
    }
  }

  __device__ void write(const Piece& piece, int first_column) {
    const int cols = min(call_.cols - first_column, sums_.window());
    if (piece.slot >= 0) {
      float* to = call_.partial_sums + std::int64_t{piece.slot} * call_.cols + first_column;
      sums_.take(cols, [&](int column, const float(&sums)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (column + i < cols) to[column + i] = sums[i];
        }
      });
      return;
    }
    const float scale = call_.mean ? 1.0f / fmaxf(piece.degree, 1.0f) : 1.0f;
    T* to = static_cast<T*>(call_.result) + std::int64_t{piece.row} * call_.cols + first_column;
    sums_.take(cols, [&](int column, const float(&sums)[4]) {
      Several<T, 4> results;
#pragma unroll
      for (int i = 0; i < 4; ++i) results.each[i] = rounded<T>(sums[i] * scale);
      if (call_.writes_quads) {
        *reinterpret_cast<Several<T, 4>*>(to + column) = results;
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (column + i < cols) to[column + i] = results.each[i];
        }
      }
    });
  }

  const AggregateCall& call_;
  RowSums<kEdges> sums_;
  int lane_;
};

/// With four edges side by side more warps are worth more than more loads of each.
template <class T, class Selector, int kEdges, int V, int kLoads = kEdges == 4 ? 1 : 4,
          int kBlocks = kEdges == 4 ? 10 : 5>
__global__ void __launch_bounds__(kAggregateThreads, kBlocks) rows_kernel(const __grid_constant__ AggregateCall call) {
  extern __shared__ __align__(16) char shared[];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  float* words = reinterpret_cast<float*>(shared) + warp * RowSums<kEdges>::words(call.window_shift);
  RowAggregator<T, Selector, kEdges, V, kLoads> rows(call, words, lane);
  for_pieces(call, static_cast<int>(blockIdx.x) * (kAggregateThreads / 32) + warp, lane,
             [&](const Piece& piece) { rows.aggregate(piece); });
}

}  // namespace rtopk::cuda
