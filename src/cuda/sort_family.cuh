// The sort by value of results that another family has written in index order.
#pragma once

#include <algorithm>

#include "launch.hpp"
#include "sort_rows.cuh"

namespace rtopk::cuda {

template <class T, bool kWide>
cudaError_t launch_sort_as(const SortNumbers& numbers, const Call& call, Grid grid) {
  using Shape = SortShape<sizeof(T), kWide>;
  static std::atomic<std::uint64_t> allowed[3];
  grid.threads = numbers.threads;
  grid.shared_bytes = numbers.shared_bytes;
  if (numbers.tiles == 1) {
    grid.blocks = std::min(call.rows, std::int64_t{0x7fffffff});
    return launch(&sort_rows_kernel<T, kWide>, allowed[0], grid, call);
  }

  char* buffers[2] = {static_cast<char*>(call.workspace), static_cast<char*>(call.workspace) + numbers.buffer_bytes};
  cudaError_t error = cudaSuccess;
  for (std::int64_t row = 0; row < call.rows && error == cudaSuccess; row += numbers.rows) {
    grid.blocks = std::min(numbers.rows, call.rows - row) * numbers.tiles;
    int filled = 0;
    error = launch(&sort_tiles_kernel<T, kWide>, allowed[1], grid, call,
                   SortBatch{row, numbers.tiles, 0, nullptr, buffers[filled]});
    for (std::int64_t run = Shape::kTile; run < call.k && error == cudaSuccess; run *= 2) {
      void* to = 2 * run < call.k ? buffers[1 - filled] : nullptr;
      error = launch(&merge_tiles_kernel<T, kWide>, allowed[2], grid, call,
                     SortBatch{row, numbers.tiles, run, buffers[filled], to});
      filled = 1 - filled;
    }
  }
  return error;
}

/// Puts the k results of each row, which lie in `call.indices` in ascending order of the index, and in `call.values` if
/// that is not null, in order by value. `call.indices` must not be null.
template <class T>
cudaError_t launch_sort(const Plan&, const Call& call, const Grid& grid) {
  if (call.rows == 0) return cudaSuccess;
  const SortNumbers numbers = sort_numbers<sizeof(T)>(call.rows, call.cols, call.k);
  if (numbers.wide) {
    // Indices of 16-bit elements always fit.
    if constexpr (sizeof(T) > 2) return launch_sort_as<T, true>(numbers, call, grid);
  } else {
    if constexpr (sizeof(T) < 8) return launch_sort_as<T, false>(numbers, call, grid);
  }
  return cudaErrorInvalidValue;
}

}  // namespace rtopk::cuda
