// cuda_warp: picks the kernel that a plan names.
#pragma once

#include "launch.hpp"
#include "warp_rows.cuh"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_warp(const Plan& plan, const Call& call, const Grid& grid) {
  cudaError_t error = cudaErrorInvalidValue;
  for_warp_variants([&]<int G, int R>() {
    if (plan.lanes_per_row != G || plan.elements_per_lane != R) return false;
    static std::atomic<std::uint64_t> allowed[2];
    error = call.bisection ? launch(&warp_rows_kernel<T, G, R, true>, allowed[1], grid, call)
                           : launch(&warp_rows_kernel<T, G, R, false>, allowed[0], grid, call);
    return true;
  });
  return error;
}

}  // namespace rtopk::cuda
