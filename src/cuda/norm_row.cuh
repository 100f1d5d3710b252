// A row in the registers of a warp, and its mean and variance.
#pragma once

#include <cstdint>

#include "lane_group.cuh"

namespace rtopk::cuda {

/// How a warp has rows of up to 32 * kPerLane columns: each lane some of them, four neighbours at a time or one.
template <int kPerLane, bool kQuads>
class NormRow {
 public:
  using Elements = float[kPerLane];

  __device__ explicit NormRow(std::int32_t cols)
      : lane_(static_cast<int>(threadIdx.x) % 32), cols_(cols), inverse_cols_(1.0f / static_cast<float>(cols)) {}

  /// Zero where there is no column.
  __device__ void load(const float* from, Elements& x) const {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if constexpr (kQuads) {
        const float4 quad = has(chunk) ? *reinterpret_cast<const float4*>(from + column(chunk)) : float4{};
        x[4 * chunk] = quad.x;
        x[4 * chunk + 1] = quad.y;
        x[4 * chunk + 2] = quad.z;
        x[4 * chunk + 3] = quad.w;
      } else {
        x[chunk] = has(chunk) ? from[column(chunk)] : 0.0f;
      }
    }
  }

  /// A lane's i-th element of `from`, which nobody writes.
  [[nodiscard]] __device__ float read(const float* from, int i) const {
    if (!has(i / kVector)) return 0.0f;
    if constexpr (kQuads) {
      const float4 quad = __ldg(reinterpret_cast<const float4*>(from + column(i / 4)));
      return i % 4 == 0 ? quad.x : i % 4 == 1 ? quad.y : i % 4 == 2 ? quad.z : quad.w;
    } else {
      return __ldg(from + column(i));
    }
  }

  __device__ void store(float* to, const Elements& x) const {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (!has(chunk)) continue;
      if constexpr (kQuads) {
        *reinterpret_cast<float4*>(to + column(chunk)) =
            float4{x[4 * chunk], x[4 * chunk + 1], x[4 * chunk + 2], x[4 * chunk + 3]};
      } else {
        to[column(chunk)] = x[chunk];
      }
    }
  }

  /// The mean over the columns of what the lanes have.
  __device__ float mean(float sum_of_lane) const { return LaneGroup<32>::sum_reals(sum_of_lane) * inverse_cols_; }

  /// Takes the mean from a row and returns 1 / sqrt(variance + epsilon).
  ///
  /// A mean in f32 is off by its rounding, which a row of large equal elements, or of small differences between large elements,
  /// would show: what is left of it is taken away in a second step. Terms are divided before they are added, so that no sum of
  /// finite elements is infinite.
  __device__ float center(Elements& x, float epsilon) const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) sum = fmaf(x[i], inverse_cols_, sum);
    const float rounded_mean = LaneGroup<32>::sum_reals(sum);
    float rest = 0.0f;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      x[i] = has(i / kVector) ? x[i] - rounded_mean : 0.0f;
      rest += x[i];
      squares = fmaf(x[i], x[i], squares);
    }
    rest = mean(rest);
    squares = mean(squares);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) x[i] = has(i / kVector) ? x[i] - rest : 0.0f;
    const float variance = squares < INFINITY ? fmaxf(fmaf(-rest, rest, squares), 0.0f) : squares;
    return rsqrtf(variance + epsilon);
  }

 private:
  static constexpr int kVector = kQuads ? 4 : 1;
  static constexpr int kChunks = kPerLane / kVector;

  [[nodiscard]] __device__ int column(int chunk) const { return (chunk * 32 + lane_) * kVector; }
  /// With quads, cols is a multiple of four.
  [[nodiscard]] __device__ bool has(int chunk) const { return column(chunk) < cols_; }

  int lane_;
  std::int32_t cols_;
  float inverse_cols_;
};

/// Numbers of the columns, the same for every row: in registers, or read for each row where those are few.
template <int kPerLane, bool kQuads, bool kHeld>
class NormColumns {
 public:
  using Row = NormRow<kPerLane, kQuads>;

  /// Null: zeros.
  __device__ NormColumns(const Row& row, const float* from) : row_(row), from_(from) {
    if constexpr (kHeld) {
      if (from != nullptr) {
        row.load(from, held_);
      } else {
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) held_[i] = 0.0f;
      }
    }
  }

  /// Of a lane's i-th element.
  [[nodiscard]] __device__ float at(int i) const {
    if constexpr (kHeld) {
      return held_[i];
    } else {
      return from_ != nullptr ? row_.read(from_, i) : 0.0f;
    }
  }

 private:
  const Row& row_;
  const float* from_;
  float held_[kHeld ? kPerLane : 1];
};

}  // namespace rtopk::cuda
