// X^T dY if dY has one column, as for the gradient of a bias. A warp has a sum for every selector in shared memory, and
// a lane adds one element of a row. The selectors of a row are distinct, so that no two lanes add to the same sum.
#pragma once

#include "cuda/product/arguments.hpp"
#include "plan/tuning_product.hpp"

namespace rtopk::cuda {

inline constexpr int kNarrowWarps = kNarrowThreads / 32;
inline constexpr int kNarrowAhead = 4;  ///< Rows of a warp in flight.

__global__ void __launch_bounds__(kNarrowThreads, 1)
    narrow_gradient_kernel(const __grid_constant__ ProductArguments args) {
  extern __shared__ __align__(16) char shared[];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int range = static_cast<int>(blockIdx.x) % args.ranges * kNarrowRange;
  const int part = static_cast<int>(blockIdx.x) / args.ranges;
  const int cols = min(args.cols - range, kNarrowRange);
  float* const sums = reinterpret_cast<float*>(shared);
  float* const own = sums + warp * kNarrowRange;
  for (int i = lane; i < kNarrowRange; i += 32) own[i] = 0.0f;
  __syncwarp();

  const auto add = [&](int selector, float value) {
    const int column = selector - range;
    if (column >= 0 && column < cols) own[column] += value;
    __syncwarp();  // the next elements may have the same selectors in other lanes
  };
  const std::int64_t step = std::int64_t{args.parts} * kNarrowWarps;
  for (std::int64_t row = std::int64_t{part} * kNarrowWarps + warp; row < args.rows; row += kNarrowAhead * step) {
    int selectors[kNarrowAhead];
    float values[kNarrowAhead];
#pragma unroll
    for (int i = 0; i < kNarrowAhead; ++i) {
      const std::int64_t at = row + i * step;
      const bool exists = at < args.rows && lane < args.k;
      selectors[i] = exists ? args.selector_at(at * args.k + lane) : args.cols;
      values[i] = exists ? args.values[at * args.k + lane] * args.gradient[at] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kNarrowAhead; ++i) {
      add(selectors[i], values[i]);
      const std::int64_t at = row + i * step;
      for (int first = 32; first < args.k && at < args.rows; first += 32) {
        const bool exists = first + lane < args.k;
        const std::int64_t element = at * args.k + first + lane;
        add(exists ? args.selector_at(element) : args.cols, exists ? args.values[element] * args.gradient[at] : 0.0f);
      }
    }
  }
  __syncthreads();
  float* const to = args.partial_sums == nullptr ? args.result : args.partial_sums + std::int64_t{part} * args.cols;
  for (int column = static_cast<int>(threadIdx.x); column < cols; column += kNarrowThreads) {
    float sum = 0.0f;
#pragma unroll 8
    for (int i = 0; i < kNarrowWarps; ++i) sum += sums[i * kNarrowRange + column];
    to[range + column] = sum;
  }
}

}  // namespace rtopk::cuda
