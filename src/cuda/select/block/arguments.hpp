// Kernel arguments of cuda_block.
#pragma once

#include <cstdint>

#include "cuda/select/arguments.hpp"

namespace rtopk::cuda {

/// See BlockLayout and BlockSample in plan/select/tuning_block.hpp.
struct BlockArguments : SelectArguments {
  std::int32_t parts = 1;      ///< Blocks that share a row.
  std::int32_t part_cols = 0;  ///< Columns of each but the last.
  std::int32_t list_at = 0;    ///< In shared memory, in bytes.
  std::int32_t list_capacity = 0;
  std::int32_t log_sample = 0;
  std::int32_t better_rank = 0;
  std::int32_t worse_rank = 0;
};

/// What a kernel is compiled for: code that is not needed would cost registers.
enum class BlockTask { select, stop_early, select_general, select_by_magnitude };

constexpr bool is_general(BlockTask task) {
  return task == BlockTask::select_general || task == BlockTask::select_by_magnitude;
}

}  // namespace rtopk::cuda
