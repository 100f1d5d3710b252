// cuda_radix: launches the kernels of a plan, in order. Their number depends on the element type only.
#pragma once

#include <algorithm>

#include "cuda/select/launch.hpp"
#include "cuda/select/radix/kernels.cuh"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_radix(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid) {
  using Digits = RadixDigits<sizeof(T)>;
  using Config = WriterConfig<T>;
  static std::atomic<std::uint64_t> allowed[7];
  if (plan.parts <= 1) {
    Grid alone = grid;
    alone.shared_bytes = Digits::kSharedBytes + Config::shared_bytes(alone.threads);
    if (rules != nullptr) return launch(&general_radix_kernel<T>, allowed[6], alone, args, *rules);
    return launch(&radix_alone_kernel<T>, allowed[0], alone, args);
  }

  const std::int64_t rows_at_once = std::max(plan.blocks / plan.parts, std::int64_t{1});
  const RadixLayout layout = radix_layout<sizeof(T)>(rows_at_once, plan.parts);
  char* workspace = static_cast<char*>(args.workspace);
  RadixBatch batch{};
  batch.parts = static_cast<std::int32_t>(plan.parts);
  batch.states = reinterpret_cast<RadixState*>(workspace + layout.states);
  batch.bins = reinterpret_cast<unsigned long long*>(workspace + layout.bins);
  batch.counts = reinterpret_cast<RadixCount*>(workspace + layout.counts);
  batch.slots = reinterpret_cast<std::uint32_t*>(workspace + layout.slots);
  // Every pass leaves its histograms zeroed.
  cudaError_t error = cudaMemsetAsync(workspace, 0, layout.zeroed, grid.stream);

  Grid pass_grid = grid;
  pass_grid.threads = kRadixThreadsShared;
  pass_grid.shared_bytes = 0;
  for (std::int64_t row = 0; row < args.rows && error == cudaSuccess; row += rows_at_once) {
    batch.first_row = row;
    pass_grid.blocks = std::min(rows_at_once, args.rows - row) * plan.parts;
    for (int pass = 0; pass < Digits::kPasses && error == cudaSuccess; ++pass) {
      batch.pass = pass;
      if (pass == 0) {
        error = launch(&radix_pass_kernel<T, RadixPass::first>, allowed[1], pass_grid, args, batch);
      } else if (pass < Digits::kPasses - 1) {
        if constexpr (Digits::kPasses > 2) {
          error = launch(&radix_pass_kernel<T, RadixPass::middle>, allowed[2], pass_grid, args, batch);
        }
      } else {
        error = launch(&radix_pass_kernel<T, RadixPass::last>, allowed[3], pass_grid, args, batch);
      }
    }
    if (error != cudaSuccess) break;
    Grid count_grid = pass_grid;
    count_grid.threads = 128;
    error = launch(&radix_count_kernel<T>, allowed[4], count_grid, batch);
    if (error != cudaSuccess) break;
    Grid write_grid = pass_grid;
    write_grid.shared_bytes = Config::shared_bytes(kRadixThreadsShared);
    error = launch(&radix_write_kernel<T>, allowed[5], write_grid, args, batch);
  }
  return error;
}

}  // namespace rtopk::cuda
