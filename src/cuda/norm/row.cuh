// A row in the registers of a warp, and its mean and variance.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"

namespace rtopk::cuda {

/// A row of up to 32 * kPerLane columns. Each lane has some of them, four neighbours at a time or single ones.
/// Addresses are those of a lane's first element: own(row).
template <int kPerLane, bool kQuads>
class NormRow {
 public:
  using Elements = float[kPerLane];
  static constexpr int kMaxColumns = 32 * kPerLane;

  __device__ explicit NormRow(std::int32_t cols)
      : first_(static_cast<int>(threadIdx.x) % 32 * kVector),
        cols_(cols),
        inverse_cols_(1.0f / static_cast<float>(cols)) {}

  template <class Float>
  [[nodiscard]] __device__ Float* own(Float* row) const {
    return row + first_;
  }

  /// Loads zero where there is no column.
  __device__ void load(const float* from, Elements& x) const {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if constexpr (kQuads) {
        const float4 quad = has(chunk) ? *reinterpret_cast<const float4*>(from + chunk * kStride) : float4{};
        x[4 * chunk] = quad.x;
        x[4 * chunk + 1] = quad.y;
        x[4 * chunk + 2] = quad.z;
        x[4 * chunk + 3] = quad.w;
      } else {
        x[chunk] = has(chunk) ? from[chunk * kStride] : 0.0f;
      }
    }
  }

  __device__ void store(float* to, const Elements& x) const {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (!has(chunk)) continue;
      if constexpr (kQuads) {
        *reinterpret_cast<float4*>(to + chunk * kStride) =
            float4{x[4 * chunk], x[4 * chunk + 1], x[4 * chunk + 2], x[4 * chunk + 3]};
      } else {
        to[chunk * kStride] = x[chunk];
      }
    }
  }

  /// The i-th element alone, of a row that nobody writes.
  [[nodiscard]] __device__ float read(const float* from, int i) const {
    if (!has(i / kVector)) return 0.0f;
    if constexpr (kQuads) {
      const float4 quad = __ldg(reinterpret_cast<const float4*>(from + i / 4 * kStride));
      return i % 4 == 0 ? quad.x : i % 4 == 1 ? quad.y : i % 4 == 2 ? quad.z : quad.w;
    } else {
      return __ldg(from + i * kStride);
    }
  }

  /// The mean over the columns, from the sums of the lanes.
  [[nodiscard]] __device__ float mean(float sum_of_lane) const {
    return LaneGroup<32>::sum_reals(sum_of_lane) * inverse_cols_;
  }

  /// The normalized row is x * scale + shift, after its rounded mean was subtracted from x.
  struct Scaling {
    float scale;
    float shift;
  };

  /// Subtracts the rounded mean from a row. Places past the last column are zero afterwards.
  ///
  /// An f32 mean has a rounding error, which would show in rows of large equal elements, or of small differences
  /// between large elements. The mean of the remainder corrects it: that is the shift. Terms are divided before they
  /// are added, so that no sum of finite elements is infinite.
  __device__ Scaling center(Elements& x, float epsilon) const {
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
    const float variance = squares < INFINITY ? fmaxf(fmaf(-rest, rest, squares), 0.0f) : squares;
    const float scale = rsqrtf(variance + epsilon);
    return {scale, -rest * scale};
  }

 private:
  static constexpr int kVector = kQuads ? 4 : 1;
  static constexpr int kChunks = kPerLane / kVector;
  static constexpr int kStride = 32 * kVector;  ///< Columns from one chunk of a lane to its next.

  /// With quads, cols is a multiple of four.
  [[nodiscard]] __device__ bool has(int chunk) const { return first_ + chunk * kStride < cols_; }

  int first_;
  std::int32_t cols_;
  float inverse_cols_;
};

/// Parameters of the columns, the same for every row: held in registers, or read for each row if registers are few.
template <int kPerLane, bool kQuads>
class NormColumns {
 public:
  using Row = NormRow<kPerLane, kQuads>;

  /// Null: zeros.
  __device__ NormColumns(const Row& row, const float* from) : row_(row), from_(from) {
    if constexpr (kHeld) {
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) held_[i] = 0.0f;
      if (from != nullptr) row.load(row.own(from), held_);
    }
  }

  /// Call it before each row. Parameters that are not held are then read where they are used, and do not stay in
  /// registers.
  __device__ void renew() {
    if constexpr (!kHeld) from_ = opaque(from_);
  }

  /// The parameter of a lane's i-th element.
  [[nodiscard]] __device__ float at(int i) const {
    if constexpr (kHeld) {
      return held_[i];
    } else {
      return from_ != nullptr ? row_.read(row_.own(from_), i) : 0.0f;
    }
  }

 private:
  static constexpr bool kHeld = kPerLane <= 8;

  const Row& row_;
  const float* from_;
  float held_[kHeld ? kPerLane : 1];
};

}  // namespace rtopk::cuda
