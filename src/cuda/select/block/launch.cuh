// cuda_block: launches the kernel for a row's length, or for a part's.
#pragma once

#include "core/checks.hpp"
#include "core/rows.hpp"
#include "cuda/select/block/parts.cuh"
#include "cuda/select/block/select.cuh"
#include "cuda/select/launch.hpp"

namespace rtopk::cuda {

template <class T, BlockTask kTask>
cudaError_t launch_block_kernel(int chunks, const BlockArguments& args, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed[4];
  if (args.parts == 1) {
    return chunks == 1 ? launch(&block_kernel<T, 1, kTask>, allowed[0], grid, args)
                       : launch(&block_kernel<T, 2, kTask>, allowed[1], grid, args);
  }
  return chunks == 1 ? launch(&block_parts_kernel<T, 1, kTask>, allowed[2], grid, args)
                     : launch(&block_parts_kernel<T, 2, kTask>, allowed[3], grid, args);
}

template <class T, BlockTask kTask>
cudaError_t launch_general_block_kernel(int chunks, const BlockArguments& args, const RowRules& rules,
                                        const Grid& grid) {
  static std::atomic<std::uint64_t> allowed[4];
  if (args.parts == 1) {
    return chunks == 1 ? launch(&general_block_kernel<T, 1, kTask>, allowed[0], grid, args, rules)
                       : launch(&general_block_kernel<T, 2, kTask>, allowed[1], grid, args, rules);
  }
  return chunks == 1 ? launch(&general_block_parts_kernel<T, 1, kTask>, allowed[2], grid, args, rules)
                     : launch(&general_block_parts_kernel<T, 2, kTask>, allowed[3], grid, args, rules);
}

template <class T>
cudaError_t launch_block(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid) {
  using Config = BlockConfig<T>;
  const BlockLayout layout = rules != nullptr ? BlockConfig<T, true>::layout(args.rows, args.cols, args.k, plan.parts)
                                              : Config::layout(args.rows, args.cols, args.k, plan.parts);
  const BlockSample sample = block_sample(args.cols, args.k, sizeof(T), args.rows, plan.parts);
  const std::int64_t part_cols = Config::part_cols(args.cols, plan.parts);
  BlockArguments block_args{args};
  block_args.parts = static_cast<std::int32_t>(plan.parts);
  block_args.part_cols = static_cast<std::int32_t>(part_cols);
  block_args.list_at = (plan.parts == 1 ? Config::kStateBytes : Config::kPartStateBytes) +
                       static_cast<std::int32_t>(Config::elements_bytes(part_cols));
  // All the room that the plan has: the last chunk of gathered rows would plan for another number of rows.
  block_args.list_capacity = (static_cast<std::int32_t>(grid.shared_bytes) - block_args.list_at) / 2;
  block_args.log_sample = sample.log_size;
  block_args.better_rank = sample.better_rank;
  block_args.worse_rank = sample.worse_rank;
  Grid clusters = grid;
  // The plan has threads for rows that begin anywhere. Those of general rows may, and one warp more is often a block less
  // on each multiprocessor.
  const bool begin_in_line =
      rules == nullptr || (!core::exists(rules->ragged.offsets) && !core::exists(rules->ragged.starts));
  if (begin_in_line && args.access_bytes == 16) {
    clusters.threads = static_cast<int>(Config::threads(part_cols / Config::kVector, layout.chunks));
  }
  if (plan.parts > 1) {
    block_args.by_value = false;  // one result is in order
    clusters.blocks_per_cluster = block_args.parts;
  }
  if (rules != nullptr) {
    return args.magnitude
               ? launch_general_block_kernel<T, BlockTask::select_by_magnitude>(layout.chunks, block_args, *rules,
                                                                                clusters)
               : launch_general_block_kernel<T, BlockTask::select_general>(layout.chunks, block_args, *rules, clusters);
  }
  return core::stops_early(plan.problem)
             ? launch_block_kernel<T, BlockTask::stop_early>(layout.chunks, block_args, clusters)
             : launch_block_kernel<T, BlockTask::select>(layout.chunks, block_args, clusters);
}

}  // namespace rtopk::cuda
