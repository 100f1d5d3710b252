// The kernels of cuda_warp.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cuda/select/warp/bisection.cuh"
#include "cuda/select/warp/early.cuh"
#include "cuda/select/warp/order.cuh"
#include "cuda/select/warp/select.cuh"
#include "cuda/select/warp/tiles.cuh"

namespace rtopk::cuda {

/// What a kernel is compiled for: rarely needed code would cost the other kernels registers.
/// `select_in_order` stops early, too.
enum class WarpTask { select, select_in_order, stop_early, bisect };

/// Blocks on a multiprocessor of sm_90, by the registers that a kernel needs.
template <class Row, WarpTask kTask>
constexpr int blocks_per_multiprocessor() {
  using T = typename Row::Type;
  constexpr int R = Row::kElements;
  if (kTask == WarpTask::select_in_order) {
    // A lane sorts sixteen or eight words, beside what the search keeps meanwhile.
    const bool many = sizeof(T) == 2 ? R > 48 && Row::Group::kLanes <= 16 : R > 24 && Row::Group::kLanes <= 8;
    const int most = std::is_integral_v<T> && R > 24 ? 4 : many ? 5 : 6;
    return std::min(most, Row::Config::kBlocksPerMultiprocessor);
  }
  if (kTask == WarpTask::bisect && sizeof(T) < 8 && R > 32) return 4;  // one element in each register
  if (kTask == WarpTask::bisect && sizeof(T) == 2 && R > 16) return std::min(6, Row::Config::kBlocksPerMultiprocessor);
  if (kTask == WarpTask::stop_early && std::is_integral_v<T> && R > 24) {
    return std::min(4, Row::Config::kBlocksPerMultiprocessor);
  }
  // As many warps as an exact selection has, which needs fewer registers: these searches wait for their own results as often.
  if (kTask == WarpTask::stop_early && std::is_same_v<T, float> && R > 32 && R <= 52) {
    return std::max(R <= 44 ? 5 : 4, Row::Config::kBlocksPerMultiprocessor);
  }
  if (kTask == WarpTask::stop_early && sizeof(T) == 2) {
    if (R <= 16) return 7;
    if (Row::Group::kLanes == 32 && R <= 56 && R % 8 == 0) return Row::Config::kBlocksPerMultiprocessor + 1;
  }
  return Row::Config::kBlocksPerMultiprocessor;
}

template <class Row, WarpTask kTask>
__global__ void __launch_bounds__(32 * kWarpsPerBlock, (blocks_per_multiprocessor<Row, kTask>()))
    warp_kernel(const __grid_constant__ typename Row::Arguments args) {
  extern __shared__ __align__(128) char shared[];
  const WarpTiles<Row> tiles(args, shared);
  if constexpr (kTask == WarpTask::bisect) {
    tiles.for_each([](const Row& row) { WarpBisection<Row>::bisect(row); });
  } else {
    WarpSelect<Row> rows;
    tiles.for_each([&](const Row& row) {
      typename Row::Marked chosen;
      if constexpr (kTask == WarpTask::stop_early) {
        chosen = rows.stop_early(row);
      } else {
        chosen = rows.choose(row);
      }
      if constexpr (kTask == WarpTask::select_in_order && Row::kStopsEarly) {
        if (args.bisection) chosen = stopped_early_in_a_call(row, chosen);
      }
      write_chosen<kTask == WarpTask::select_in_order>(row, chosen);
    });
  }
}

}  // namespace rtopk::cuda
