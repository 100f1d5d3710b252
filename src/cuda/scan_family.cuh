// cuda_scan: picks the kernel that a plan names.
#pragma once

#include "launch.hpp"
#include "scan_rows.cuh"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_scan(const Plan& plan, const Call& call, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed[2];
  const ScanNumbers numbers = scan_numbers<sizeof(T)>(call.rows, call.cols, plan.threads, call.access_bytes == 16);
  Grid rows = grid;
  rows.threads = numbers.threads;
  rows.shared_bytes = numbers.shared_bytes;
  return numbers.held ? launch(&scan_rows_kernel<T, true>, allowed[1], rows, call)
                      : launch(&scan_rows_kernel<T, false>, allowed[0], rows, call);
}

}  // namespace rtopk::cuda
