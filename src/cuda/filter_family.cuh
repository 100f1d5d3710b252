// cuda_filter: queues its kernel.
#pragma once

#include "filter_select.cuh"
#include "launch.hpp"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_filter(const Plan&, const Call& call, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed[2];
  if (FilterShape<T>::capacity(call.k) <= FilterShape<T>::kShortList) {
    return launch(&filter_kernel<T, true>, allowed[0], grid, call);
  }
  return launch(&filter_kernel<T, false>, allowed[1], grid, call);
}

}  // namespace rtopk::cuda
