// cuda_warp: picks the kernel that a plan and a call need.
#pragma once

#include "launch.hpp"
#include "warp_select.cuh"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_warp(const Plan& plan, const Call& call, const Grid& grid) {
  cudaError_t error = cudaErrorInvalidValue;
  for_warp_variants<T>([&]<int G, int R>() {
    if (plan.lanes_per_row != G || plan.elements_per_lane != R) return false;
    static std::atomic<std::uint64_t> allowed[3];
    if (call.bisection) {
      error = launch(&warp_kernel<T, G, R, WarpTask::bisect>, allowed[0], grid, call);
    } else if (call.by_value) {
      error = launch(&warp_kernel<T, G, R, WarpTask::select_in_order>, allowed[1], grid, call);
    } else {
      error = launch(&warp_kernel<T, G, R, WarpTask::select>, allowed[2], grid, call);
    }
    return true;
  });
  return error;
}

}  // namespace rtopk::cuda
