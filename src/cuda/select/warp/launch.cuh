// cuda_warp: picks the kernel for a plan and a call.
#pragma once

#include "cuda/select/launch.hpp"
#include "cuda/select/warp/select.cuh"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_warp(const Plan& plan, const SelectArguments& args, const Grid& grid) {
  cudaError_t error = cudaErrorInvalidValue;
  for_warp_variants<T>([&]<int G, int R>() {
    if (plan.lanes_per_row != G || plan.elements_per_lane != R) return false;
    static std::atomic<std::uint64_t> allowed[3];
    if (args.bisection) {
      error = launch(&warp_kernel<T, G, R, WarpTask::bisect>, allowed[0], grid, args);
    } else if (args.by_value) {
      error = launch(&warp_kernel<T, G, R, WarpTask::select_in_order>, allowed[1], grid, args);
    } else {
      error = launch(&warp_kernel<T, G, R, WarpTask::select>, allowed[2], grid, args);
    }
    return true;
  });
  return error;
}

}  // namespace rtopk::cuda
