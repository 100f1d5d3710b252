// Launches the sort by value of results that another family has written in index order.
#pragma once

#include <algorithm>

#include "cuda/select/launch.hpp"
#include "cuda/select/sort/block.cuh"
#include "cuda/select/sort/digits.cuh"
#include "cuda/select/sort/general.cuh"
#include "cuda/select/sort/kernels.cuh"
#include "cuda/select/sort/warp.cuh"

namespace rtopk::cuda {

/// True if a sort by digits of so many results fits in the shared memory of the device.
template <class T>
bool digits_fit(std::int64_t items, int device) {
  int most = 0;
  return sizeof(T) <= 4 &&
         cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
         DigitSortConfig<sizeof(T)>::shared_bytes(items) <= static_cast<std::size_t>(most);
}

/// Sorts the results of some rows in tiles.
template <class T>
cudaError_t launch_digit_tiles(const SelectArguments& args, Grid grid, std::int64_t row, std::int64_t rows, void* to) {
  using Config = DigitSortConfig<sizeof(T)>;
  static std::atomic<std::uint64_t> allowed;
  const std::int64_t tiles = (args.k + Config::kTile - 1) / Config::kTile;
  grid.threads = Config::threads(Config::kTile);
  grid.shared_bytes = Config::shared_bytes(Config::kTile);
  grid.blocks = rows * tiles;
  return launch(&digit_sort_tiles_kernel<T>, allowed, grid, args, SortBatch{row, tiles, 0, nullptr, to});
}

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
  const bool by_digits = !kWide && digits_fit<T>(DigitSortConfig<sizeof(T)>::kTile, grid.device);
  cudaError_t error = cudaSuccess;
  for (std::int64_t row = 0; row < args.rows && error == cudaSuccess; row += config.rows) {
    const std::int64_t rows = std::min(config.rows, args.rows - row);
    grid.blocks = rows * config.tiles;
    int filled = 0;
    std::int64_t run = Config::kTile;
    if (by_digits) {
      if constexpr (!kWide) {
        error = launch_digit_tiles<T>(args, grid, row, rows, buffers[filled]);
        run = DigitSortConfig<sizeof(T)>::kTile;
      }
    } else {
      error = launch(&sort_tiles_kernel<T, kWide>, allowed[1], grid, args,
                     SortBatch{row, config.tiles, 0, nullptr, buffers[filled]});
    }
    for (; run < args.k && error == cudaSuccess; run *= 2) {
      void* to = 2 * run < args.k ? buffers[1 - filled] : nullptr;
      error = launch(&merge_tiles_kernel<T, kWide>, allowed[2], grid, args,
                     SortBatch{row, config.tiles, run, buffers[filled], to});
      filled = 1 - filled;
    }
  }
  return error;
}

/// True if a block can sort a whole row by digits.
template <class T>
bool sorts_by_digits(const SelectArguments& args, int device) {
  using Config = DigitSortConfig<sizeof(T)>;
  return args.k <= Config::kMaxItems && args.cols <= std::int64_t{0xffffffff} && digits_fit<T>(args.k, device);
}

template <class T>
cudaError_t launch_digit_sort(const SelectArguments& args, Grid grid) {
  using Config = DigitSortConfig<sizeof(T)>;
  static std::atomic<std::uint64_t> allowed;
  grid.threads = Config::threads(args.k);
  grid.shared_bytes = Config::shared_bytes(args.k);
  grid.blocks = std::min(args.rows, std::int64_t{0x7fffffff});
  return launch(&digit_sort_kernel<T>, allowed, grid, args);
}

template <class T, int C>
cudaError_t launch_warp_sort_of(const SelectArguments& args, Grid grid) {
  static std::atomic<std::uint64_t> allowed;
  grid.threads = 32 * WarpSortConfig::kWarps;
  grid.shared_bytes = WarpSortConfig::kWarps * WarpSortConfig::warp_bytes(C, sizeof(T));
  grid.blocks = std::min(core::ceil_div(args.rows, std::int64_t{WarpSortConfig::kWarps}), std::int64_t{0x7fffffff});
  return launch(&warp_sort_kernel<T, C>, allowed, grid, args);
}

template <class T>
cudaError_t launch_warp_sort(const SelectArguments& args, const Grid& grid) {
  switch (WarpSortConfig::items_per_lane(args.k)) {
    case 8: return launch_warp_sort_of<T, 8>(args, grid);
    default: return launch_warp_sort_of<T, 16>(args, grid);
  }
}

template <class T, int kWarps>
cudaError_t launch_block_sort_of(const SelectArguments& args, const RowRules* rules, Grid grid) {
  static std::atomic<std::uint64_t> allowed[2];
  grid.threads = 32 * kWarps;
  grid.shared_bytes = BlockSortConfig::shared_bytes(kWarps, sizeof(T));
  grid.blocks = std::min(args.rows, std::int64_t{0x7fffffff});
  if (rules != nullptr) return launch(&general_block_sort_kernel<T, kWarps>, allowed[1], grid, args, *rules);
  return launch(&block_sort_kernel<T, kWarps>, allowed[0], grid, args);
}

template <class T>
cudaError_t launch_block_sort(const SelectArguments& args, const RowRules* rules, const Grid& grid) {
  switch (BlockSortConfig::warps(args.k)) {
    case 4: return launch_block_sort_of<T, 4>(args, rules, grid);
    case 8: return launch_block_sort_of<T, 8>(args, rules, grid);
    case 16: return launch_block_sort_of<T, 16>(args, rules, grid);
    default: return launch_block_sort_of<T, 32>(args, rules, grid);
  }
}

template <class T>
cudaError_t launch_merge_sort(const SelectArguments& args, const RowRules& rules, Grid grid) {
  static std::atomic<std::uint64_t> allowed;
  grid.threads = MergeSortConfig::kThreads;
  grid.shared_bytes = 0;
  grid.blocks = MergeSortConfig::blocks(args.rows);
  return launch(&general_merge_sort_kernel<T>, allowed, grid, args, rules);
}

/// Sorts the k results of each row by value. They are in `args.indices`, which must not be null, in ascending order of
/// the index, and in `args.values` if that is not null.
template <class T>
cudaError_t launch_sort(const Plan&, const SelectArguments& args, const RowRules* rules, const Grid& grid) {
  if (args.rows == 0) return cudaSuccess;
  if (rules != nullptr) {
    return args.k <= BlockSortConfig::kMaxItems ? launch_block_sort<T>(args, rules, grid)
                                                : launch_merge_sort<T>(args, *rules, grid);
  }
  if (args.k <= BlockSortConfig::kMaxItems && args.cols <= std::int64_t{1} << 32) {
    const bool by_warps = args.k <= WarpSortConfig::kMaxItems && args.rows > BlockSortConfig::kFewRows;
    return by_warps ? launch_warp_sort<T>(args, grid) : launch_block_sort<T>(args, nullptr, grid);
  }
  if constexpr (sizeof(T) <= 4) {
    if (sorts_by_digits<T>(args, grid.device)) return launch_digit_sort<T>(args, grid);
  }
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
