// cuda_scan: picks the kernel for a plan.
#pragma once

#include "cuda/select/launch.hpp"
#include "cuda/select/scan/kernel.cuh"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_scan(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed[3];
  const ScanLaunch config = scan_launch<sizeof(T)>(args.rows, args.cols, plan.threads, args.access_bytes == 16);
  Grid rows = grid;
  rows.threads = config.threads;
  rows.shared_bytes = config.shared_bytes;
  if (rules != nullptr) return launch(&general_scan_kernel<T>, allowed[2], rows, args, *rules);
  return config.held ? launch(&scan_rows_kernel<T, true>, allowed[1], rows, args)
                     : launch(&scan_rows_kernel<T, false>, allowed[0], rows, args);
}

}  // namespace rtopk::cuda
