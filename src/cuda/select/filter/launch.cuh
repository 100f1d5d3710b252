// cuda_filter: launches its kernel.
#pragma once

#include "cuda/select/filter/select.cuh"
#include "cuda/select/launch.hpp"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_filter(const Plan&, const SelectArguments& args, const RowRules*, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed[2];
  if (FilterConfig<T>::capacity(args.k) <= FilterConfig<T>::kShortList) {
    return launch(&filter_kernel<T, true>, allowed[0], grid, args);
  }
  return launch(&filter_kernel<T, false>, allowed[1], grid, args);
}

}  // namespace rtopk::cuda
