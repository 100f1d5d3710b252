// The kernels after the edges: add up the pieces of long rows, and convert sums to elements.
#pragma once

#include <cstdint>

#include "cuda/aggregate/elements.cuh"
#include "cuda/aggregate/pieces.cuh"
#include "cuda/runtime/successive_kernels.cuh"

namespace rtopk::cuda {

inline constexpr int kFinishThreads = 256;

inline constexpr int kSlotsPerBlock = 32;  ///< Few slots are the first of a long row.

/// For each long row, a block adds up the sums of its pieces, in their order. Rows are `width` wide.
template <class T>
__global__ void __launch_bounds__(kFinishThreads)
    combine_kernel(const __grid_constant__ AggregateArguments args, const std::int32_t width) {
  wait_for_previous();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first = std::int64_t{blockIdx.x} * kSlotsPerBlock;
  const std::int32_t rows = first + lane < args.slots ? args.slot_rows[first + lane] : -1;
  for (unsigned begins = __ballot_sync(kFullWarp, rows >= 0); begins != 0; begins &= begins - 1) {
    const int slot = __ffs(static_cast<int>(begins)) - 1;
    const std::int32_t row = __shfl_sync(kFullWarp, rows, slot);
    const RowRange range = range_of(args.graph, row);
    const auto pieces = static_cast<std::int32_t>(range.degree() >> args.piece_shift);
    const float scale = args.mean ? 1.0f / static_cast<float>(range.degree()) : 1.0f;
    for (int column = static_cast<int>(threadIdx.x); column < width; column += kFinishThreads) {
      const float* sums = args.partial_sums + (first + slot) * width + column;
      float sum = 0.0f;
#pragma unroll 8
      for (int piece = 0; piece < pieces; ++piece) sum += sums[static_cast<std::int64_t>(piece) * width];
      static_cast<T*>(args.result)[std::int64_t{row} * width + column] = rounded<T>(sum * scale);
    }
  }
}

/// Converts the sums of a scatter to 16-bit elements.
template <class T>
__global__ void __launch_bounds__(kFinishThreads)
    round_kernel(const __grid_constant__ AggregateArguments args, const std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kFinishThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kFinishThreads + threadIdx.x; i < count; i += step) {
    static_cast<T*>(args.result)[i] = rounded<T>(args.atomic_sums[i]);
  }
}

}  // namespace rtopk::cuda
