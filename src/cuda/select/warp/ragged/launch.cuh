// Short general rows: launches cuda_warp's kernel for them.
#pragma once

#include "cuda/select/launch.hpp"
#include "cuda/select/warp/kernel.cuh"
#include "cuda/select/warp/ragged/results.cuh"
#include "cuda/select/warp/ragged/row.cuh"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_ragged(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid) {
  cudaError_t error = cudaErrorInvalidValue;
  const RaggedArguments ragged{args, *rules};
  for_ragged_variants<T>([&]<int G, int R>() {
    if (plan.lanes_per_row != G || plan.elements_per_lane != R) return false;
    static std::atomic<std::uint64_t> allowed;
    error = launch(&warp_kernel<RaggedRow<T, G, R>, WarpTask::select_in_order>, allowed, grid, ragged);
    return true;
  });
  return error;
}

}  // namespace rtopk::cuda
