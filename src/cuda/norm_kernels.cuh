// Kernels of a normalization: a warp takes rows in turn, and has what it adds up over them in registers.
#pragma once

#include <cstdint>

#include "norm_launch.hpp"
#include "norm_row.cuh"
#include "norm_shape.hpp"

namespace rtopk::cuda {

/// The rows that a warp takes: every `step`-th.
struct NormTurns {
  std::int64_t first;
  std::int64_t step;

  static __device__ NormTurns of_warp() {
    const std::int64_t warps = blockDim.x / 32;
    return {blockIdx.x * warps + threadIdx.x / 32, gridDim.x * warps};
  }
};

template <int kPerLane, bool kQuads, int kThreads = kNormThreads, int kMinBlocks = (kPerLane <= 8 ? 4 : 1),
          bool kAhead = (kPerLane <= 8), bool kHeld = (kPerLane <= 8)>
__global__ void __launch_bounds__(kThreads, kMinBlocks) norm_rows_kernel(const __grid_constant__ NormArguments a) {
  using Row = NormRow<kPerLane, kQuads>;
  const Row row(a.cols);
  const NormColumns<kPerLane, kQuads, kHeld> bias(row, a.call.bias);
  const NormColumns<kPerLane, kQuads, kHeld> gamma(row, a.call.gamma);
  const NormColumns<kPerLane, kQuads, kHeld> beta(row, a.call.beta);
  const NormTurns turns = NormTurns::of_warp();
  float next[kPerLane];
  if (kAhead && turns.first < a.rows) row.load(a.call.input + turns.first * a.cols, next);
  for (std::int64_t r = turns.first; r < a.rows; r += turns.step) {
    float x[kPerLane];
    if constexpr (kAhead) {
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) x[i] = next[i];
      if (r + turns.step < a.rows) row.load(a.call.input + (r + turns.step) * a.cols, next);
    } else {
      row.load(a.call.input + r * a.cols, x);
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) x[i] += bias.at(i);
    const float scale = row.center(x, a.epsilon);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) x[i] = fmaf(x[i] * scale, gamma.at(i), beta.at(i));
    row.store(a.call.result + r * a.cols, x);
  }
}

/// A row of zeros in shared memory, into which a warp scatters the k elements of a compact row.
template <class Row, int kFetched>
class DenseNormRow {
 public:
  __device__ DenseNormRow(const NormArguments& a, const Row& row, float* memory) : a_(a), row_(row), memory_(memory) {}

  /// Each lane its own columns, which it alone reads.
  __device__ void clear() {
    row_.store(memory_, typename Row::Elements{});
    __syncwarp();
  }

  /// Reads the compact row that the next take() makes dense.
  __device__ void fetch(std::int64_t r) {
    at_ = r * a_.k;
#pragma unroll
    for (int i = 0; i < kFetched; ++i) read(lane() + 32 * i, columns_[i], values_[i]);
  }

  /// What lanes have of the dense row; it is zero again afterwards.
  __device__ void take(typename Row::Elements& x) {
#pragma unroll
    for (int i = 0; i < kFetched; ++i) put(columns_[i], values_[i]);
    for (int i = lane() + 32 * kFetched; i < a_.k; i += 32) {
      int column;
      float value;
      read(i, column, value);
      put(column, value);
    }
    __syncwarp();
    row_.load(memory_, x);
    clear();
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }

  /// The i-th element of the row. Where there is none, the column does not exist.
  __device__ void read(int i, int& column, float& value) const {
    column = a_.cols;
    if (i >= a_.k) return;
    column = a_.wide ? static_cast<const std::uint16_t*>(a_.call.selectors)[at_ + i]
                     : static_cast<const std::uint8_t*>(a_.call.selectors)[at_ + i];
    value = a_.call.values[at_ + i];
  }
  __device__ void put(int column, float value) {
    if (column < a_.cols) memory_[column] = value;
  }

  const NormArguments& a_;
  const Row& row_;
  float* memory_;
  std::int64_t at_ = 0;
  int columns_[kFetched];
  float values_[kFetched];
};

template <int kPerLane, bool kQuads, bool kCompact, int kThreads = kNormThreads,
          int kMinBlocks = (kPerLane <= 8 ? 2 : 1), bool kAhead = (kPerLane <= 8), bool kHeld = (kPerLane <= 8),
          int kFetched = 2>
__global__ void __launch_bounds__(kThreads, kMinBlocks) norm_gradient_kernel(const __grid_constant__ NormArguments a) {
  using Row = NormRow<kPerLane, kQuads>;
  extern __shared__ float4 shared_quads[];
  auto* shared = reinterpret_cast<float*>(shared_quads);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const Row row(a.cols);
  const NormColumns<kPerLane, kQuads, kHeld> bias(row, a.call.bias);
  const NormColumns<kPerLane, kQuads, kHeld> gamma(row, a.call.gamma);
  DenseNormRow<Row, kFetched> dense(a, row, shared + warp * 32 * kPerLane);
  if constexpr (kCompact) dense.clear();
  float sums[kNormSums][kPerLane] = {};
  const NormTurns turns = NormTurns::of_warp();
  float next_x[kPerLane];
  float next_g[kPerLane];
  if (kAhead && turns.first < a.rows) {
    row.load(a.call.input + turns.first * a.cols, next_x);
    if (!kCompact) row.load(a.call.gradient + turns.first * a.cols, next_g);
  }
  if (kCompact && turns.first < a.rows) dense.fetch(turns.first);
  for (std::int64_t r = turns.first; r < a.rows; r += turns.step) {
    float x[kPerLane];
    float g[kPerLane];
    if constexpr (kAhead) {
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) x[i] = next_x[i];
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) g[i] = next_g[i];
      if (r + turns.step < a.rows) {
        row.load(a.call.input + (r + turns.step) * a.cols, next_x);
        if (!kCompact) row.load(a.call.gradient + (r + turns.step) * a.cols, next_g);
      }
    } else {
      row.load(a.call.input + r * a.cols, x);
      if constexpr (!kCompact) row.load(a.call.gradient + r * a.cols, g);
    }
    if constexpr (kCompact) {
      dense.take(g);
      if (r + turns.step < a.rows) dense.fetch(r + turns.step);
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) x[i] += bias.at(i);
    const float scale = row.center(x, a.epsilon);
    float mean = 0.0f;
    float slope = 0.0f;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      x[i] *= scale;
      sums[0][i] = fmaf(g[i], x[i], sums[0][i]);
      sums[1][i] += g[i];
      g[i] *= gamma.at(i);
      mean += g[i];
      slope = fmaf(g[i], x[i], slope);
    }
    mean = row.mean(mean);
    slope = row.mean(slope);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      x[i] = scale * (g[i] - fmaf(x[i], slope, mean));
      sums[2][i] += x[i];
    }
    row.store(a.call.result + r * a.cols, x);
  }

  // The sums of the block's warps, one after the other.
  __syncthreads();
  for (int turn = 0; turn < kThreads / 32; ++turn) {
    if (turn == warp) {
#pragma unroll
      for (int sum = 0; sum < kNormSums; ++sum) {
        float before[kPerLane] = {};
        if (turn > 0) row.load(shared + sum * a.cols, before);
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) before[i] += sums[sum][i];
        row.store(shared + sum * a.cols, before);
      }
    }
    __syncthreads();
  }
  const int count = static_cast<int>(kNormSums) * a.cols;
  float* partial = a.partial_sums + static_cast<std::int64_t>(blockIdx.x) * count;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) partial[i] = shared[i];
}

inline constexpr int kNormFinishThreads = 1024;

/// Adds up the sums of all blocks, in an order that depends on their number alone. A block has 32 columns.
static __global__ void __launch_bounds__(kNormFinishThreads)
    norm_finish_kernel(const __grid_constant__ NormArguments a, const std::int32_t partials) {
  __shared__ float sums[32][33];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int count = static_cast<int>(kNormSums) * a.cols;
  const int at = static_cast<int>(blockIdx.x) * 32 + lane;
  float sum = 0.0f;
  if (at < count) {
#pragma unroll 4
    for (int i = warp; i < partials; i += 32) sum += a.partial_sums[static_cast<std::int64_t>(i) * count + at];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  sum = LaneGroup<32>::sum_reals(sums[lane][warp]);
  const int column = static_cast<int>(blockIdx.x) * 32 + warp;
  if (lane != 0 || column >= count) return;
  float* const results[] = {a.call.gamma_gradient, a.call.beta_gradient, a.call.bias_gradient};
  float* result = results[column / a.cols];
  if (result != nullptr) result[column % a.cols] = sum;
}

}  // namespace rtopk::cuda
