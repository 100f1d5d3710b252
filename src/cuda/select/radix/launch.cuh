// cuda_radix: launches the kernels of a plan, in order. Their number depends on the plan only.
#pragma once

#include <algorithm>

#include "cuda/select/launch.hpp"
#include "cuda/select/radix/bracket.cuh"
#include "cuda/select/radix/kernels.cuh"

namespace rtopk::cuda {

/// Rows that several blocks share; `Rules` is RowRules or NoRules.
template <class T, class Rules>
cudaError_t launch_shared_rows(const Plan& plan, const SelectArguments& args, const Rules& rules, const Grid& grid) {
  using Digits = RadixDigits<sizeof(T)>;
  static std::atomic<std::uint64_t> allowed[7];
  const std::int64_t rows_at_once = std::max(plan.blocks / plan.parts, std::int64_t{1});
  const RadixLayout layout = radix_layout<sizeof(T)>(rows_at_once, plan.parts);
  char* workspace = static_cast<char*>(args.workspace);
  RadixBatch batch{};
  batch.parts = static_cast<std::int32_t>(plan.parts);
  batch.states = reinterpret_cast<RadixState*>(workspace + layout.states);
  batch.bins = reinterpret_cast<unsigned long long*>(workspace + layout.bins);
  batch.counts = reinterpret_cast<RadixCount*>(workspace + layout.counts);
  static_assert(sizeof(LastResult) == sizeof(RadixCount));
  batch.last = reinterpret_cast<LastResult*>(workspace + layout.counts);
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
        error = launch(&radix_pass_kernel<T, RadixPass::first, Rules>, allowed[0], pass_grid, args, rules, batch);
      } else if (pass < Digits::kPasses - 1) {
        if constexpr (Digits::kPasses > 2) {
          error = launch(&radix_pass_kernel<T, RadixPass::middle, Rules>, allowed[1], pass_grid, args, rules, batch);
        }
      } else {
        error = launch(&radix_pass_kernel<T, RadixPass::last, Rules>, allowed[2], pass_grid, args, rules, batch);
      }
    }
    if (error != cudaSuccess) break;
    Grid count_grid = pass_grid;
    count_grid.threads = 128;
    error = launch(&radix_count_kernel<T>, allowed[3], count_grid, batch);
    if (error != cudaSuccess) break;
    Grid write_grid = pass_grid;
    write_grid.shared_bytes = WriterConfig<T>::shared_bytes(kRadixThreadsShared);
    error = launch(&radix_write_kernel<T, Rules>, allowed[4], write_grid, args, rules, batch);
    if constexpr (RadixRow<T, Rules>::kGeneral) {
      if (!rules.finishes) continue;
      if (error == cudaSuccess && rules.thresholds != nullptr) {
        error = launch(&radix_threshold_kernel<T>, allowed[5], pass_grid, args, rules, batch);
      }
      if (error == cudaSuccess) error = launch(&radix_finish_kernel<T>, allowed[6], pass_grid, args, rules, batch);
    }
  }
  return error;
}

template <class T>
cudaError_t launch_radix(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed[3];
  if (plan.parts > 1) {
    return rules != nullptr ? launch_shared_rows<T>(plan, args, *rules, grid)
                            : launch_shared_rows<T>(plan, args, NoRules{}, grid);
  }
  Grid alone = grid;
  if (rules == nullptr && takes_bracket(plan)) {
    const auto room = static_cast<std::int64_t>(plan.shared_bytes);
    const BracketLayout layout = BracketConfig<sizeof(T)>::layout(args.cols, args.k, plan.threads, room);
    if (layout.capacity > 0 && room >= layout.shared_bytes) {
      alone.blocks = args.rows;
      alone.shared_bytes = plan.shared_bytes;
      return launch(&bracket_kernel<T>, allowed[2], alone, args, layout);
    }
  }
  alone.shared_bytes = RadixDigits<sizeof(T)>::kSharedBytes + WriterConfig<T>::shared_bytes(alone.threads);
  if (rules != nullptr) return launch(&general_radix_kernel<T>, allowed[1], alone, args, *rules);
  return launch(&radix_alone_kernel<T>, allowed[0], alone, args);
}

}  // namespace rtopk::cuda
