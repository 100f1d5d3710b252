// cuda_block: launches the kernel for a plan's number of threads.
#pragma once

#include "cuda/select/block/select.cuh"
#include "cuda/select/launch.hpp"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_block(const Plan&, const SelectArguments& args, const Grid& grid) {
  cudaError_t error = cudaErrorInvalidValue;
  for_block_variants([&]<int W>() {
    if (grid.threads != 32 * W) return false;
    static std::atomic<std::uint64_t> allowed;
    error = launch(&block_kernel<T, W>, allowed, grid, args);
    return true;
  });
  return error;
}

}  // namespace rtopk::cuda
