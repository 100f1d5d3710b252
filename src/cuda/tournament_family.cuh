// cuda_tournament: picks the kernel that a plan and a call need.
#pragma once

#include "launch.hpp"
#include "tournament_select.cuh"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_tournament(const Plan& plan, const Call& call, const Grid& grid) {
  cudaError_t error = cudaErrorInvalidValue;
  for_tournament_shapes<T>([&]<int G, int R>() {
    if (plan.lanes_per_row != G || plan.elements_per_lane != R) return false;
    static std::atomic<std::uint64_t> allowed[3];
    switch (tournament_list(call.k)) {
      case 2: error = launch(&tournament_kernel<T, G, R, 2>, allowed[0], grid, call); break;
      case 4: error = launch(&tournament_kernel<T, G, R, 4>, allowed[1], grid, call); break;
      default: error = launch(&tournament_kernel<T, G, R, 8>, allowed[2], grid, call); break;
    }
    return true;
  });
  return error;
}

}  // namespace rtopk::cuda
