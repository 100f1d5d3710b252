// Kernels of a normalization. A warp takes one row after the other, reads the next one ahead, and keeps its sums over
// rows in registers.
#pragma once

#include <cstdint>

#include "cuda/norm/launch.hpp"
#include "cuda/norm/row.cuh"
#include "cuda/runtime/successive_kernels.cuh"
#include "plan/tuning_norm.hpp"

namespace rtopk::cuda {

/// The rows that a warp takes: every `step`-th.
struct NormTurns {
  std::uint32_t row;  ///< Cannot overflow: rows are below 2^31, and one step more fits.
  std::uint32_t step;

  __device__ NormTurns() {
    const unsigned warps = kNormThreads / 32;
    row = blockIdx.x * warps + threadIdx.x / 32;
    step = gridDim.x * warps;
  }
  /// The start of this turn's row of `width` elements, and the distance to the next turn's row.
  template <class X>
  [[nodiscard]] __device__ X* begin(X* rows, std::int32_t width) const {
    return rows + static_cast<std::int64_t>(row) * width;
  }
  [[nodiscard]] __device__ std::int64_t distance(std::int32_t width) const {
    return static_cast<std::int64_t>(step) * width;
  }
};

/// Longer rows leave no registers for the next one, and have enough loads in flight by themselves.
template <int kPerLane>
inline constexpr bool kNormReadsAhead = kPerLane <= 8;

template <int kPerLane, bool kQuads>
__global__ void __launch_bounds__(kNormThreads, norm_blocks_for_rows(kPerLane))
    norm_rows_kernel(const __grid_constant__ NormArguments args) {
  constexpr bool kAhead = kNormReadsAhead<kPerLane>;
  const NormRow<kPerLane, kQuads> row(args.cols);
  NormColumns<kPerLane, kQuads> bias(row, args.call.bias);
  NormColumns<kPerLane, kQuads> gamma(row, args.call.gamma);
  NormColumns<kPerLane, kQuads> beta(row, args.call.beta);
  NormTurns turns;
  const std::uint32_t rows = static_cast<std::uint32_t>(args.rows);
  const std::int64_t distance = turns.distance(args.cols);
  const float* from = row.own(turns.begin(args.call.input, args.cols));
  float* to = row.own(turns.begin(args.call.result, args.cols));
  float next[kPerLane];
  if (kAhead && turns.row < rows) row.load(from, next);
  for (; turns.row < rows; turns.row += turns.step) {
    if constexpr (!kAhead) row.load(from, next);
    bias.renew();
    float x[kPerLane];
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) x[i] = next[i] + bias.at(i);
    from += distance;
    if (kAhead && turns.row + turns.step < rows) row.load(from, next);
    const auto [scale, shift] = row.center(x, args.epsilon);
    gamma.renew();
    beta.renew();
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) x[i] = fmaf(fmaf(x[i], scale, shift), gamma.at(i), beta.at(i));
    row.store(to, x);
    to += distance;
  }
}

/// Rows of a gradient in CBSR, made dense: a warp scatters the k elements of a row to zeros in shared memory.
template <class Row, class Selector>
class NormGradientRows {
 public:
  /// `shared` has a row for every warp.
  __device__ NormGradientRows(const NormArguments& args, const Row&, const NormTurns& turns, float* shared)
      : own_k_(args.k - static_cast<int>(threadIdx.x) % 32),
        cols_(args.cols),
        distance_(turns.distance(args.k)),
        values_(turns.begin(args.call.values, args.k) + threadIdx.x % 32),
        selectors_(turns.begin(static_cast<const Selector*>(args.call.selectors), args.k) + threadIdx.x % 32),
        row_(Row::kMaxColumns),
        // Opaque: otherwise it would be computed again at every use.
        memory_(shared + opaque(static_cast<int>(threadIdx.x) / 32 * Row::kMaxColumns)) {
    clear();
  }

  /// Reads the compact row that the next take() makes dense.
  __device__ void fetch() {
#pragma unroll
    for (int i = 0; i < kFetched; ++i) {
      if (32 * i >= own_k_) continue;
      value_[i] = values_[32 * i];
      column_[i] = selectors_[32 * i];
    }
  }

  /// Loads the lane's elements of the dense row, and zeroes the row again. The next fetch() is for the next turn's row.
  __device__ void take(typename Row::Elements& x) {
#pragma unroll
    for (int i = 0; i < kFetched; ++i) {
      if (32 * i < own_k_) put(column_[i], value_[i]);
    }
#pragma unroll 1
    for (int i = 32 * kFetched; i < own_k_; i += 32) put(selectors_[i], values_[i]);
    __syncwarp();
    row_.load(row_.own(memory_), x);
    clear();
    values_ += distance_;
    selectors_ += distance_;
  }

 private:
  static constexpr int kFetched = 2;  ///< Elements that each lane reads ahead.

  /// Each lane clears its own columns, which it alone reads.
  __device__ void clear() {
    row_.store(row_.own(memory_), typename Row::Elements{});
    __syncwarp();
  }
  __device__ void put(int column, float value) {
    if (column < cols_) memory_[column] = value;
  }

  std::int32_t own_k_;  ///< Elements of the row from the lane's first on.
  std::int32_t cols_;
  std::int64_t distance_;
  const float* values_;
  const Selector* selectors_;
  Row row_;  ///< Of full length, because there are zeros past the last column too.
  float* memory_;
  float value_[kFetched];
  int column_[kFetched];
};

/// Rows of a dense gradient, with the same interface.
template <class Row>
class NormGradientRows<Row, void> {
 public:
  __device__ NormGradientRows(const NormArguments& args, const Row& row, const NormTurns& turns, float*)
      : distance_(turns.distance(args.cols)), from_(row.own(turns.begin(args.call.gradient, args.cols))), row_(row) {}

  __device__ void fetch() { row_.load(from_, next_); }
  __device__ void take(typename Row::Elements& x) {
#pragma unroll
    for (std::size_t i = 0; i < sizeof x / sizeof *x; ++i) x[i] = next_[i];
    from_ += distance_;
  }

 private:
  std::int64_t distance_;
  const float* from_;
  const Row& row_;
  typename Row::Elements next_;
};

/// Adds up the sums of a block's warps, one after the other, and writes them to the workspace.
template <class Row, int kPerLane>
__device__ void leave_norm_sums(const NormArguments& args, const Row& row, const float (&sums)[kNormSums][kPerLane],
                                float* shared) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int turn = 0; turn < kNormThreads / 32; ++turn) {
    __syncthreads();
    if (turn != warp) continue;
#pragma unroll
    for (int sum = 0; sum < kNormSums; ++sum) {
      float* at = row.own(shared + sum * args.cols);
      float total[kPerLane] = {};
      if (turn > 0) row.load(at, total);
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) total[i] += sums[sum][i];
      row.store(at, total);
    }
  }
  __syncthreads();
  const int count = static_cast<int>(kNormSums) * args.cols;
  float* partial = args.partial_sums + static_cast<std::int64_t>(blockIdx.x) * count;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kNormThreads) partial[i] = shared[i];
}

/// dX, and a block's sums for gamma, beta and the bias. Selector is void for a dense gradient.
template <int kPerLane, bool kQuads, class Selector>
__global__ void __launch_bounds__(kNormThreads, norm_blocks_for_gradients(kPerLane))
    norm_gradient_kernel(const __grid_constant__ NormArguments args) {
  let_next_begin();
  constexpr bool kAhead = kNormReadsAhead<kPerLane>;
  using Row = NormRow<kPerLane, kQuads>;
  extern __shared__ float4 shared_quads[];
  auto* shared = reinterpret_cast<float*>(shared_quads);
  const Row row(args.cols);
  NormColumns<kPerLane, kQuads> bias(row, args.call.bias);
  NormColumns<kPerLane, kQuads> gamma(row, args.call.gamma);
  NormTurns turns;
  NormGradientRows<Row, Selector> gradient(args, row, turns, shared);
  const std::uint32_t rows = static_cast<std::uint32_t>(args.rows);
  const std::int64_t distance = turns.distance(args.cols);
  const float* from = row.own(turns.begin(args.call.input, args.cols));
  float* to = row.own(turns.begin(args.call.result, args.cols));
  float sums[kNormSums][kPerLane] = {};
  float next[kPerLane];
  const auto read = [&] {
    row.load(from, next);
    gradient.fetch();
  };
  if (kAhead && turns.row < rows) read();
  for (; turns.row < rows; turns.row += turns.step) {
    if constexpr (!kAhead) read();
    bias.renew();
    float x[kPerLane];
    float g[kPerLane];
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) x[i] = next[i] + bias.at(i);
    gradient.take(g);
    from += distance;
    if (kAhead && turns.row + turns.step < rows) read();
    const auto [scale, shift] = row.center(x, args.epsilon);
    gamma.renew();
    float mean = 0.0f;
    float slope = 0.0f;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      x[i] = fmaf(x[i], scale, shift);
      sums[0][i] = fmaf(g[i], x[i], sums[0][i]);
      sums[1][i] += g[i];
      g[i] *= gamma.at(i);
      mean += g[i];
      slope = fmaf(g[i], x[i], slope);
    }
    mean = row.mean(mean) * scale;
    slope = row.mean(slope) * scale;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      x[i] = fmaf(g[i], scale, -fmaf(x[i], slope, mean));
      sums[2][i] += x[i];
    }
    row.store(to, x);
    to += distance;
  }
  leave_norm_sums(args, row, sums, shared);
}

inline constexpr int kNormFinishThreads = 1024;

/// Adds up the sums of all blocks, in an order that depends only on their number. A block has 32 columns.
static __global__ void __launch_bounds__(kNormFinishThreads)
    norm_finish_kernel(const __grid_constant__ NormArguments args, const std::int32_t partials) {
  wait_for_previous();
  __shared__ float sums[32][33];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int count = static_cast<int>(kNormSums) * args.cols;
  const int at = static_cast<int>(blockIdx.x) * 32 + lane;
  float sum = 0.0f;
  if (at < count) {
#pragma unroll 4
    for (int i = warp; i < partials; i += 32) sum += args.partial_sums[static_cast<std::int64_t>(i) * count + at];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  sum = LaneGroup<32>::sum_reals(sums[lane][warp]);
  const int column = static_cast<int>(blockIdx.x) * 32 + warp;
  if (lane != 0 || column >= count) return;
  float* const results[] = {args.call.gamma_gradient, args.call.beta_gradient, args.call.bias_gradient};
  float* result = results[column / args.cols];
  if (result != nullptr) result[column % args.cols] = sum;
}

}  // namespace rtopk::cuda
