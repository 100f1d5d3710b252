// Launches the sort by value of results that another family has written in index order.
#pragma once

#include <algorithm>

#include "cuda/select/launch.hpp"
#include "cuda/select/sort/kernels.cuh"

namespace rtopk::cuda {

template <class T, bool kWide>
cudaError_t launch_sort_as(const SortLaunch& config, const SelectArguments& args, Grid grid) {
  using Config = SortConfig<sizeof(T), kWide>;
  static std::atomic<std::uint64_t> allowed[3];
  grid.threads = config.threads;
  grid.shared_bytes = config.shared_bytes;
  if (config.tiles == 1) {
    grid.blocks = std::min(args.rows, std::int64_t{0x7fffffff});
    return launch(&sort_rows_kernel<T, kWide>, allowed[0], grid, args);
  }

  char* buffers[2] = {static_cast<char*>(args.workspace), static_cast<char*>(args.workspace) + config.buffer_bytes};
  cudaError_t error = cudaSuccess;
  for (std::int64_t row = 0; row < args.rows && error == cudaSuccess; row += config.rows) {
    grid.blocks = std::min(config.rows, args.rows - row) * config.tiles;
    int filled = 0;
    error = launch(&sort_tiles_kernel<T, kWide>, allowed[1], grid, args,
                   SortBatch{row, config.tiles, 0, nullptr, buffers[filled]});
    for (std::int64_t run = Config::kTile; run < args.k && error == cudaSuccess; run *= 2) {
      void* to = 2 * run < args.k ? buffers[1 - filled] : nullptr;
      error = launch(&merge_tiles_kernel<T, kWide>, allowed[2], grid, args,
                     SortBatch{row, config.tiles, run, buffers[filled], to});
      filled = 1 - filled;
    }
  }
  return error;
}

/// Sorts the k results of each row by value. They are in `args.indices`, which must not be null, in ascending order of
/// the index, and in `args.values` if that is not null.
template <class T>
cudaError_t launch_sort(const Plan&, const SelectArguments& args, const Grid& grid) {
  if (args.rows == 0) return cudaSuccess;
  const SortLaunch config = sort_launch<sizeof(T)>(args.rows, args.cols, args.k);
  if (config.wide) {
    // Indices of 16-bit elements always fit.
    if constexpr (sizeof(T) > 2) return launch_sort_as<T, true>(config, args, grid);
  } else {
    if constexpr (sizeof(T) < 8) return launch_sort_as<T, false>(config, args, grid);
  }
  return cudaErrorInvalidValue;
}

}  // namespace rtopk::cuda
