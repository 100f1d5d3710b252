// cuda_stream: Y = A X. A warp takes the edges of a batch of rows, and has a sum for every column in shared memory. A
// lane adds V elements of an edge to their columns. The selectors of a node are distinct, so that no two lanes add to
// the same sum. If nodes have few elements, S edges are added at the same time, each to its own sums, which are merged
// when the row ends.
#pragma once

#include <cstdint>

#include "cuda/aggregate/batches.cuh"
#include "cuda/aggregate/elements.cuh"
#include "cuda/runtime/successive_kernels.cuh"
#include "plan/tuning_aggregate.hpp"

namespace rtopk::cuda {

/// kAhead: loads of a lane in flight, of V elements each.
template <class T, class Selector, bool kWeighted, int V, int S, int kAhead>
class RowStreamer {
 public:
  /// `sums`: stream_words(window, S).
  __device__ RowStreamer(const AggregateArguments& args, float* sums, int lane)
      : args_(args), sums_(sums), sums_at_(static_cast<std::uint32_t>(__cvta_generic_to_shared(sums))), lane_(lane) {
#pragma unroll 1
    for (int i = lane; i < window() * S / 4; i += 32) reinterpret_cast<float4*>(sums)[i] = float4{};
    __syncwarp();
  }

  __device__ void work(std::int32_t number) {
    for_batches(args_, number, lane_, args_.k <= kLanes * V, [&](EdgeBatch batch) {
      // A batch begins at an edge whose number in the graph is a multiple of S, possibly an edge of an earlier row. So
      // each edge always goes to the same of the S sums, and the order of additions does not depend on which rows are
      // joined.
      const auto lead = static_cast<int>(batch.begin % S);
      batch.begin -= lead;
      batch.edges += lead;
      batch.end += lead;
      int first_column = 0;
      do {
        for (int element = 0; element < args_.k; element += kLanes * V) {
          add(batch, lead, element, first_column, element + kLanes * V >= args_.k);
        }
        first_column += window();
      } while (sizeof(Selector) > 1 && first_column < args_.cols);  // 256 columns always fit
    });
  }

 private:
  static constexpr int kLanes = 32 / S;      ///< Lanes of an edge.
  static constexpr int kEdges = kAhead * S;  ///< Edges in flight.

  /// Columns that fit. 8-bit selectors cannot point outside 256.
  [[nodiscard]] __device__ int window() const { return sizeof(Selector) == 1 ? 256 : args_.window; }

  struct Elements {
    Several<T, V> values;
    Several<Selector, V> selectors;
    float weight;
  };

  /// Adds the elements from `element` on, V for each lane, of all edges from `at` on. Writes each row where it ends, if
  /// `complete`.
  __device__ void add(const EdgeBatch& batch, int at, int element, int first_column, bool complete) {
    // A lane without elements loads the first ones and adds them to its private word.
    const int mine = element + lane_ % kLanes * V;
    const int side = lane_ / kLanes;
    const bool has = mine < args_.k;
    const char* values = static_cast<const char*>(args_.values) + sizeof(T) * (has ? mine : 0);
    const char* selectors = static_cast<const char*>(args_.selectors) + sizeof(Selector) * (has ? mine : 0);
    const int value_bytes = args_.k * static_cast<int>(sizeof(T));
    const int selector_bytes = args_.k * static_cast<int>(sizeof(Selector));
    const std::uint32_t nowhere = sums_at_ + 4 * static_cast<std::uint32_t>(window() * S + lane_);
    // The S sums of a column are neighbours.
    const std::uint32_t base = has ? sums_at_ + 4 * static_cast<std::uint32_t>(side) : nowhere;
    const std::uint32_t step = has ? 4 * S : 0;
    const auto cols = static_cast<unsigned>(min(window(), args_.cols - first_column));

    EdgeStream<kWeighted> edges(args_.graph, batch, lane_);
    Elements loaded[kAhead];
    unsigned exist = 0;
    int loaded_to = 0;  // the next edge to load; the next to add is `at`
    int row = batch.first;
    int row_begin = at;
    int row_end = __shfl_sync(kFullWarp, batch.end, row);
    // Invariant: all edges before `at` are added. Once loaded, edges [loaded_to - kEdges, loaded_to) are in registers.
    for (;;) {
      const int until = min(row_end, loaded_to);
      if (at < until) {
        // Edges of this row among the loaded ones.
        const int behind = loaded_to - kEdges;
        const unsigned wanted = (exist & bits_below(until - behind) & ~bits_below(at - behind)) >> side;
#pragma unroll
        for (int l = 0; l < kAhead; ++l) {
          std::uint32_t to[V];
          float sums[V];
#pragma unroll
          for (int i = 0; i < V; ++i) {
            const auto column = loaded[l].selectors.each[i] - static_cast<unsigned>(first_column);
            to[i] = base + column * step;
            // 8-bit selectors always point to words of this warp; those past the columns point to words that nobody
            // reads.
            if (sizeof(Selector) > 1 && column >= cols) to[i] = nowhere;
            asm volatile("ld.shared.f32 %0, [%1];" : "=f"(sums[i]) : "r"(to[i]) : "memory");
          }
#pragma unroll
          for (int i = 0; i < V; ++i) {
            const float value = as_float(loaded[l].values.each[i]);
            const float sum = kWeighted ? fmaf(loaded[l].weight, value, sums[i]) : value + sums[i];
            // In assembly: with a branch for each edge the compiler would not load the next edge's sums early.
            asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p st.shared.f32 [%0], %1; }" ::"r"(to[i]), "f"(sum),
                         "r"(wanted & 1u << l * S)
                         : "memory");
          }
          __syncwarp();  // the next edge may have the same columns in other lanes
        }
      }
      at = S == 1 ? until : max(at, until);  // at first nothing is loaded
      if (at == row_end || args_.graph.nodes == 0) {
        if (complete) write(batch, row, batch.degree(row_begin, row_end), first_column);
        if (++row >= batch.last) return;
        row_begin = row_end;
        row_end = __shfl_sync(kFullWarp, batch.end, row);
      } else {
        edges.begin_turn(loaded_to);
        exist = edges.exist();
#pragma unroll
        for (int l = 0; l < kAhead; ++l) {
          const std::int64_t node = edges.node(l * S + side);
          loaded[l].weight = edges.weight(l * S + side);
          loaded[l].values = load_several<V>(reinterpret_cast<const T*>(values + node * value_bytes));
          loaded[l].selectors = load_several<V>(reinterpret_cast<const Selector*>(selectors + node * selector_bytes));
        }
        loaded_to += kEdges;
        edges.end_turn(kEdges);
      }
    }
  }

  /// Writes the sums and resets them to zero.
  __device__ void write(const EdgeBatch& batch, int row, float degree, int first_column) {
    if (batch.slot >= 0) {  // combine_kernel makes the mean
      write_to(args_.partial_sums + std::int64_t{batch.slot} * args_.cols, 1.0f, first_column);
    } else {
      const float scale = args_.mean ? 1.0f / fmaxf(degree, 1.0f) : 1.0f;
      write_to(static_cast<T*>(args_.result) + std::int64_t{batch.row + row} * args_.cols, scale, first_column);
    }
    __syncwarp();
  }

  template <class Result>
  __device__ void write_to(Result* to, float scale, int first_column) {
    const int cols = min(args_.cols - first_column, window());
    to += first_column;
    if (args_.writes_quads) {
#pragma unroll 1
      for (int word = lane_ * 4; word < cols * S; word += 128) {
        float4& words = *reinterpret_cast<float4*>(sums_ + word);
        const float sums[] = {words.x, words.y, words.z, words.w};
        words = float4{};
        Several<Result, 4 / S> results;
#pragma unroll
        for (int i = 0; i < 4 / S; ++i) results.each[i] = rounded<Result>(total(sums + i * S) * scale);
        store_several<4 / S>(to + word / S, results);
      }
    } else {
#pragma unroll 1
      for (int column = lane_; column < cols; column += 32) {
        float sums[S];
#pragma unroll
        for (int side = 0; side < S; ++side) {
          sums[side] = sums_[column * S + side];
          sums_[column * S + side] = 0.0f;
        }
        to[column] = rounded<Result>(total(sums) * scale);
      }
    }
  }

  /// The sum of a column.
  [[nodiscard]] __device__ static float total(const float* sums) {
    if constexpr (S == 1) {
      return sums[0];
    } else if constexpr (S == 2) {
      return sums[0] + sums[1];
    } else {
      return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  }

  const AggregateArguments& args_;
  float* sums_;
  std::uint32_t sums_at_;  ///< Shared address of `sums_`.
  int lane_;
};

/// Blocks on a multiprocessor: as many as registers allow.
template <class T, class Selector, bool kWeighted, int V, int S>
constexpr int stream_blocks() {
  if (sizeof(Selector) > 1) return S == 1 ? 5 : 6;
  if (kWeighted) return S == 1 ? 6 : 7;
  return sizeof(T) < 4 && V == 1 && S == 1 ? 7 : 8;
}

/// Eight edges of a warp are in flight, or fewer if a lane has several elements of each.
template <class T, class Selector, bool kWeighted, int V, int S, int kAhead = 8 / (V > S ? V : S),
          int kBlocks = stream_blocks<T, Selector, kWeighted, V, S>()>
__global__ void __launch_bounds__(kAggregateThreads, kBlocks)
    stream_kernel(const __grid_constant__ AggregateArguments args) {
  using Streamer = RowStreamer<T, Selector, kWeighted, V, S, kAhead>;
  let_next_begin();
  extern __shared__ __align__(16) char shared[];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Streamer rows(args, reinterpret_cast<float*>(shared) + warp * stream_words(args.window, S), lane);
  rows.work(static_cast<int>(blockIdx.x) * (kAggregateThreads / 32) + warp);
}

}  // namespace rtopk::cuda
