// cuda_rows: Y = A X. A warp takes some rows that follow each other, and their edges as one stream: the elements of the next
// edges are under way while rows end and begin. It has a sum for every column in shared memory. A lane adds V elements of an
// edge to their columns: the selectors of a node are distinct, so no two lanes meet.
#pragma once

#include <cstdint>

#include "cuda/aggregate_elements.cuh"
#include "cuda/aggregate_pieces.cuh"
#include "cuda/aggregate_shape.hpp"

namespace rtopk::cuda::tuned {

/// V values of an edge's node and their selectors.
template <class T, class Selector, int V>
struct StreamElements {
  Several<T, V> values;
  Several<Selector, V> selectors;
};

/// Rows whose edges follow each other.
struct Run {
  std::int64_t begin;
  std::int32_t edges;
  std::int32_t end;    ///< Of the row of each lane, from `begin` on.
  std::int32_t row;    ///< Of lane 0.
  std::int32_t first;  ///< Lanes of the first row and behind the last.
  std::int32_t last;
  std::int32_t slot;   ///< Where the sums of a piece go; -1: to the result.
};

__device__ inline unsigned bits_below(int n) { return n >= 32 ? ~0u : (1u << n) - 1u; }

/// Calls f(run) for all that the warp of this number has to do: the piece of a slot, or all short rows of
/// `rows_per_worker`, at most 32. Rows that follow each other make a run, if they may.
template <class F>
__device__ void for_runs(const AggregateCall& call, std::int32_t number, int lane, bool may_join, F&& f) {
  std::int64_t begin = 0;
  std::int32_t degree = 0;
  Run run{};
  unsigned starts = 0;
  unsigned joined = 0;
  if (number < call.slots) {
    const Piece piece = piece_in(call, number, lane);
    begin = piece.begin;
    degree = piece.edges;
    run.row = piece.row;
    run.slot = piece.slot;
    starts = piece.exists ? 1u : 0u;
  } else {
    const std::int64_t first_row = std::int64_t{number - call.slots} * call.rows_per_worker;
    const bool exists = lane < call.rows_per_worker && first_row + lane < call.graph.rows;
    const RowRange range =
        exists ? range_of(call.graph, static_cast<std::int32_t>(first_row) + lane) : RowRange{0, 0};
    begin = range.begin;
    degree = static_cast<std::int32_t>(range.degree());
    const unsigned shorts = __ballot_sync(kWholeWarp, exists && !is_long(range, call.piece_shift));
    // A row joins the one before if both are short and it begins where that ends.
    const bool follows = range.begin == __shfl_up_sync(kWholeWarp, range.end, 1) && may_join;
    joined = __ballot_sync(kWholeWarp, follows) & shorts & shorts << 1;
    run.row = static_cast<std::int32_t>(first_row);
    run.slot = -1;
    starts = shorts & ~joined;
  }
  for (; starts != 0; starts &= starts - 1) {
    run.first = __ffs(static_cast<int>(starts)) - 1;
    run.last = run.first + __ffs(static_cast<int>(~(joined >> run.first >> 1)));
    run.begin = __shfl_sync(kWholeWarp, begin, run.first);
    run.end = static_cast<std::int32_t>(begin - run.begin) + degree;
    run.edges = __shfl_sync(kWholeWarp, run.end, run.last - 1);
    f(run);
  }
}

/// The node that an edge of a run names, as it stands there; -1 behind the last edge.
template <class Index>
__device__ Index raw_column_at(const GraphView& graph, const Run& run, int edge) {
  return edge < run.edges ? __ldcs(static_cast<const Index*>(graph.columns) + run.begin + edge) : Index{-1};
}

template <class T, class Selector, class Index, bool kWeighted, int V, int kAhead, bool kStreamOut, int kSide>
class RowStreamer {
  static constexpr int kLanes = 32 / kSide;       ///< Of an edge.
  static constexpr int kTurn = kSide * kAhead;    ///< Edges that are under way together.

 public:
  static __device__ int place_of_lowest(int x) { return __ffs(x) - 1; }

  __device__ RowStreamer(const AggregateCall& call, float* sums, int window, int lane)
      : call_(call), sums_(sums), sums_at_(static_cast<std::uint32_t>(__cvta_generic_to_shared(sums))), window_(window), shift_(place_of_lowest(window / kLanes)), lane_(lane) {
#pragma unroll 1
    for (int i = lane; i < window * kSide / 4; i += 32) reinterpret_cast<float4*>(sums)[i] = float4{};
    __syncwarp();
  }

  __device__ void work(std::int32_t number) {
    tuned::for_runs(call_, number, lane_, call_.k <= kLanes * V, [&](const Run& run) { stream(run); });
  }

 private:
  __device__ void stream(const Run& run) {
    int first_column = 0;
    do {
      for (int element = 0; element < call_.k; element += kLanes * V) {
        add(run, element, first_column, element + kLanes * V >= call_.k);
      }
      first_column += window_;
    } while (sizeof(Selector) > 1 && first_column < call_.cols);  // 256 columns always fit
  }

  /// Adds the elements from `element` on, V for each lane, of all edges, and writes rows where they end, if they are complete.
  __device__ void add(const Run& run, int element, int first_column, bool complete) {
    // A lane without elements reads the first ones and adds them to a word of its own that nobody reads.
    const int side = lane_ / kLanes;
    const int mine = element + lane_ % kLanes * V;
    const bool has = mine < call_.k;
    const char* values = static_cast<const char*>(call_.values) + sizeof(T) * (has ? mine : 0);
    const char* selectors = static_cast<const char*>(call_.selectors) + sizeof(Selector) * (has ? mine : 0);
    const std::uint32_t nowhere = sums_at_ + 4 * static_cast<std::uint32_t>(window_ * kSide + lane_);
    const std::uint32_t base = has ? sums_at_ : nowhere;
    const std::uint32_t step = has ? 4 : 0;
    const int value_bytes = call_.k * static_cast<int>(sizeof(T));
    const int selector_bytes = call_.k * static_cast<int>(sizeof(Selector));

    StreamElements<T, Selector, V> loaded[kAhead];
    Index next = raw_column_at<Index>(call_.graph, run, lane_);  // not looked at before it is needed
    std::int32_t columns = 0;
    float next_weights = 0.0f;
    float weights[kAhead];
    unsigned next_exist = 0;
    unsigned exist = 0;
    int at = 0;         // the next edge to add
    int loaded_to = 0;  // the next edge to load
    int row = run.first;
    int row_begin = 0;
    int row_end = __shfl_sync(kWholeWarp, run.end, row);
    for (;;) {
      const int until = min(row_end, loaded_to);
      if (at < until) {
        const int behind = loaded_to - kTurn;
        // Edges of this row among those that are loaded.
        const unsigned wanted = (exist & bits_below(until - behind) & ~bits_below(at - behind)) >> side;
#pragma unroll
        for (int l = 0; l < kAhead; ++l) {
          std::uint32_t to[V];
          float sums[V];
#pragma unroll
          for (int i = 0; i < V; ++i) {
            const auto column = static_cast<unsigned>(loaded[l].selectors.each[i]) - static_cast<unsigned>(first_column);
            if constexpr (kSide == 1) {
              to[i] = base + column * step;
            } else {
              const unsigned word = ((column & ((1u << shift_) - 1u)) << 5) + (column >> shift_);
              to[i] = has ? sums_at_ + 4 * (word + side * kLanes) : nowhere;
            }
            // 8-bit selectors always lead to words of this warp.
            if (sizeof(Selector) > 1 && column >= static_cast<unsigned>(window_)) to[i] = nowhere;
            asm volatile("ld.shared.f32 %0, [%1];" : "=f"(sums[i]) : "r"(to[i]) : "memory");
          }
#pragma unroll
          for (int i = 0; i < V; ++i) {
            const float value = Element<T>::value(loaded[l].values.each[i]);
            const float sum = kWeighted ? fmaf(weights[l], value, sums[i]) : value + sums[i];
            asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p st.shared.f32 [%0], %1; }" ::"r"(to[i]), "f"(sum),
                         "r"(wanted & 1u << l * kSide)
                         : "memory");
          }
          __syncwarp();  // the next edge may have the same columns in other lanes
        }
      }
      at = until;
      if (at == row_end || call_.graph.nodes == 0) {
        if (complete) write(run, row, row_end - row_begin, first_column);
        if (++row >= run.last) return;
        row_begin = row_end;
        row_end = max(row_end, __shfl_sync(kWholeWarp, run.end, row));
      } else {
        if (loaded_to % 32 == 0) {
          const bool exists = next >= 0 && next < call_.graph.nodes;
          columns = exists ? static_cast<std::int32_t>(next) : 0;  // another one is read, and not added
          next_exist = __ballot_sync(kWholeWarp, exists);
          if constexpr (kWeighted) next_weights = weight_at(run, loaded_to + lane_);
          next = raw_column_at<Index>(call_.graph, run, loaded_to + 32 + lane_);
        }
        exist = next_exist;
#pragma unroll
        for (int l = 0; l < kAhead; ++l) {
          const std::int64_t node = __shfl_sync(kWholeWarp, columns, l * kSide + side);
          if constexpr (kWeighted) weights[l] = __shfl_sync(kWholeWarp, next_weights, l * kSide + side);
          loaded[l].values = load_several<V>(reinterpret_cast<const T*>(values + node * value_bytes));
          loaded[l].selectors = load_several<V>(reinterpret_cast<const Selector*>(selectors + node * selector_bytes));
        }
        loaded_to += kTurn;
        // What comes next moves to the first lanes.
        next_exist = kTurn < 32 ? next_exist >> kTurn % 32 : 0u;
        columns = __shfl_sync(kWholeWarp, columns, lane_ + kTurn);
        if constexpr (kWeighted) next_weights = __shfl_sync(kWholeWarp, next_weights, lane_ + kTurn);
      }
    }
  }

  [[nodiscard]] __device__ float weight_at(const Run& run, int edge) const {
    return edge < run.edges ? __ldcs(call_.graph.weights + run.begin + edge) : 0.0f;
  }

  /// Writes the sums and makes them zero.
  __device__ void write(const Run& run, int row, int degree, int first_column) {
    if (run.slot >= 0) {
      write_to(call_.partial_sums + std::int64_t{run.slot} * call_.cols, 1.0f, first_column);
    } else {
      const float scale = call_.mean ? 1.0f / fmaxf(static_cast<float>(degree), 1.0f) : 1.0f;
      write_to(static_cast<T*>(call_.result) + std::int64_t{run.row + row} * call_.cols, scale, first_column);
    }
    __syncwarp();
  }

  template <class Result>
  __device__ void write_to(Result* to, float scale, int first_column) {
    const int cols = min(call_.cols - first_column, window_);
    to += first_column;
    if constexpr (kSide > 1) {
      __syncwarp();
#pragma unroll 1
      for (int j = lane_ / kLanes * 4; j < (1 << shift_); j += 4 * kSide) {
        const int column = (lane_ % kLanes << shift_) + j;
        if (column >= cols) break;
        float sum[4] = {};
#pragma unroll
        for (int t = 0; t < kSide; ++t) {
          float* from = sums_ + j * 32 + (lane_ / kLanes + t) % kSide * kLanes + lane_ % kLanes;
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            sum[i] += from[32 * i];
            from[32 * i] = 0.0f;
          }
        }
        if (call_.writes_quads) {
          Several<Result, 4> results{rounded<Result>(sum[0] * scale), rounded<Result>(sum[1] * scale),
                                     rounded<Result>(sum[2] * scale), rounded<Result>(sum[3] * scale)};
          *reinterpret_cast<Several<Result, 4>*>(to + column) = results;
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (column + i < cols) to[column + i] = rounded<Result>(sum[i] * scale);
          }
        }
      }
    } else if (call_.writes_quads) {
#pragma unroll 1
      for (int column = lane_ * 4; column < cols; column += 128) {
        float4& sums = *reinterpret_cast<float4*>(sums_ + column);
        const float4 sum = sums;
        sums = float4{};
        Several<Result, 4> results{rounded<Result>(sum.x * scale), rounded<Result>(sum.y * scale),
                                   rounded<Result>(sum.z * scale), rounded<Result>(sum.w * scale)};
        if constexpr (kStreamOut && sizeof(Result) == 4) {
          __stcs(reinterpret_cast<float4*>(to + column), *reinterpret_cast<float4*>(&results));
        } else {
          *reinterpret_cast<Several<Result, 4>*>(to + column) = results;
        }
      }
    } else {
#pragma unroll 1
      for (int column = lane_; column < cols; column += 32) {
        to[column] = rounded<Result>(sums_[column] * scale);
        sums_[column] = 0.0f;
      }
    }
  }

  const AggregateCall& call_;
  float* sums_;
  std::uint32_t sums_at_;  ///< The same, as shared memory is addressed.
  int window_;
  int shift_;  ///< log2 of the columns that share a bank, with several edges side by side.
  int lane_;
};

template <class T, class Selector, class Index, bool kWeighted, int V, int kAhead, int kBlocks, bool kStreamOut = true, int kSide = 1>
__global__ void __launch_bounds__(kAggregateThreads, kBlocks) stream_kernel(const __grid_constant__ AggregateCall call) {
  extern __shared__ __align__(16) char shared[];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int number = static_cast<int>(blockIdx.x) * (kAggregateThreads / 32) + warp;
  const int window = 1 << call.window_shift;
  RowStreamer<T, Selector, Index, kWeighted, V, kAhead, kStreamOut, kSide> rows(call, reinterpret_cast<float*>(shared) + warp * (window * kSide + 32), window, lane);
  rows.work(number);
}

/// As combine_kernel, with a block for 32 slots.
template <class T>
__global__ void __launch_bounds__(256) combine_many_kernel(const __grid_constant__ AggregateCall call, const std::int32_t width) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first = std::int64_t{blockIdx.x} * 32;
  const std::int32_t rows = first + lane < call.slots ? call.slot_rows[first + lane] : -1;
  for (unsigned found = __ballot_sync(kWholeWarp, rows >= 0); found != 0; found &= found - 1) {
    const int slot = __ffs(static_cast<int>(found)) - 1;
    const std::int32_t row = __shfl_sync(kWholeWarp, rows, slot);
    const RowRange range = range_of(call.graph, row);
    const auto pieces = static_cast<std::int32_t>(range.degree() >> call.piece_shift);
    const float scale = call.mean ? 1.0f / static_cast<float>(range.degree()) : 1.0f;
    for (int column = static_cast<int>(threadIdx.x); column < width; column += 256) {
      const float* sums = call.partial_sums + (first + slot) * width + column;
      float sum = 0.0f;
#pragma unroll 8
      for (int piece = 0; piece < pieces; ++piece) sum += sums[static_cast<std::int64_t>(piece) * width];
      static_cast<T*>(call.result)[std::int64_t{row} * width + column] = rounded<T>(sum * scale);
    }
  }
}

}  // namespace rtopk::cuda::tuned
