// cuda_warp: picks the kernel for a plan and a call.
#pragma once

#include "cuda/select/launch.hpp"
#include "cuda/select/warp/aligned_row.cuh"
#include "cuda/select/warp/kernel.cuh"
#include "cuda/select/warp/unaligned_row.cuh"

namespace rtopk::cuda {

template <class Row>
cudaError_t launch_rows(const SelectArguments& args, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed[3];
  if (args.by_value) return launch(&warp_kernel<Row, WarpTask::select_in_order>, allowed[0], grid, args);
  if (args.bisection) return launch(&warp_kernel<Row, WarpTask::stop_early>, allowed[2], grid, args);
  return launch(&warp_kernel<Row, WarpTask::select>, allowed[1], grid, args);
}

template <class T>
cudaError_t launch_warp(const Plan& plan, const SelectArguments& args, const RowRules*, const Grid& grid) {
  cudaError_t error = cudaErrorInvalidValue;
  const auto is_planned = [&](int lanes, int elements) {
    return plan.lanes_per_row == lanes && plan.elements_per_lane == elements;
  };
  for_aligned_variants<T>([&]<int G, int R>() {
    if (!is_planned(G, R)) return false;
    using Row = AlignedRow<T, G, R>;
    if (!args.passes_in_warp) {
      error = launch_rows<Row>(args, grid);
    } else if constexpr (AlignedConfig<T, G, R>::kBisects) {
      static std::atomic<std::uint64_t> allowed;
      error = launch(&warp_kernel<Row, WarpTask::bisect>, allowed, grid, args);
    }
    return true;
  });
  for_unaligned_variants<T>([&]<int G, int R>() {
    if (!is_planned(G, R)) return false;
    error = launch_rows<UnalignedRow<T, G, R>>(args, grid);
    return true;
  });
  return error;
}

}  // namespace rtopk::cuda
