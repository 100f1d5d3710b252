// X^T dY where dY has one column, as for the gradient of a bias. A warp has a sum for every selector in shared memory; a lane adds
// one element of a row: the selectors of a row are distinct, so no two lanes meet.
#pragma once

#include "product_call.hpp"
#include "product_shape.hpp"

namespace rtopk::cuda {

inline constexpr int kNarrowWarps = kNarrowThreads / 32;
inline constexpr int kNarrowAhead = 4;  ///< Rows of a warp that are under way together.

__global__ void __launch_bounds__(kNarrowThreads, 1) narrow_gradient_kernel(const __grid_constant__ MultiplyCall call) {
  extern __shared__ __align__(16) char shared[];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int range = static_cast<int>(blockIdx.x) % call.ranges * kNarrowRange;
  const int part = static_cast<int>(blockIdx.x) / call.ranges;
  const int cols = min(call.cols - range, kNarrowRange);
  float* const sums = reinterpret_cast<float*>(shared);
  float* const own = sums + warp * kNarrowRange;
  for (int i = lane; i < kNarrowRange; i += 32) own[i] = 0.0f;
  __syncwarp();

  const auto add = [&](int selector, float value) {
    const int column = selector - range;
    if (column >= 0 && column < cols) own[column] += value;
    __syncwarp();  // the next elements may have the same selectors in other lanes
  };
  const std::int64_t step = std::int64_t{call.parts} * kNarrowWarps;
  for (std::int64_t row = std::int64_t{part} * kNarrowWarps + warp; row < call.rows; row += kNarrowAhead * step) {
    int selectors[kNarrowAhead];
    float values[kNarrowAhead];
#pragma unroll
    for (int i = 0; i < kNarrowAhead; ++i) {
      const std::int64_t at = row + i * step;
      const bool exists = at < call.rows && lane < call.k;
      selectors[i] = exists ? call.selector_at(at * call.k + lane) : call.cols;
      values[i] = exists ? call.values[at * call.k + lane] * call.gradient[at] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kNarrowAhead; ++i) {
      add(selectors[i], values[i]);
      const std::int64_t at = row + i * step;
      for (int first = 32; first < call.k && at < call.rows; first += 32) {
        const bool exists = first + lane < call.k;
        const std::int64_t element = at * call.k + first + lane;
        add(exists ? call.selector_at(element) : call.cols, exists ? call.values[element] * call.gradient[at] : 0.0f);
      }
    }
  }
  __syncthreads();
  float* const to = call.partial_sums == nullptr ? call.result : call.partial_sums + std::int64_t{part} * call.cols;
  for (int column = static_cast<int>(threadIdx.x); column < cols; column += kNarrowThreads) {
    float sum = 0.0f;
#pragma unroll 8
    for (int i = 0; i < kNarrowWarps; ++i) sum += sums[i * kNarrowRange + column];
    to[range + column] = sum;
  }
}

}  // namespace rtopk::cuda
