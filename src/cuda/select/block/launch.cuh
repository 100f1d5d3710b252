// cuda_block: launches the kernel for a row's length.
#pragma once

#include "cuda/select/block/select.cuh"
#include "cuda/select/launch.hpp"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_block(const Plan&, const SelectArguments& args, const Grid& grid) {
  using Config = BlockConfig<T>;
  const BlockLayout layout = Config::layout(args.cols, args.k);
  const BlockSample sample = block_sample(args.cols, args.k, sizeof(T));
  BlockArguments block_args{args};
  block_args.list_at = Config::kStateBytes + static_cast<std::int32_t>(Config::elements_bytes(args.cols));
  block_args.list_capacity = static_cast<std::int32_t>(layout.list_capacity);
  block_args.log_sample = sample.log_size;
  block_args.better_rank = sample.better_rank;
  block_args.worse_rank = sample.worse_rank;
  static std::atomic<std::uint64_t> allowed[2];
  return layout.chunks == 1 ? launch(&block_kernel<T, 1>, allowed[0], grid, block_args)
                            : launch(&block_kernel<T, 2>, allowed[1], grid, block_args);
}

}  // namespace rtopk::cuda
