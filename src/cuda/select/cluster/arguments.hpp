// Kernel arguments of cuda_cluster.
#pragma once

#include <cstdint>

#include "cuda/select/arguments.hpp"

namespace rtopk::cuda {

/// See ClusterSample in plan/select/tuning_cluster.hpp.
struct ClusterArguments : SelectArguments {
  std::int32_t parts = 1;
  float sample_margin = 0;  ///< See cluster_margin: for rows of other lengths.
  std::int32_t log_draws = 0;
  std::int32_t threshold_rank = 0;
  std::int32_t rank_if_alike = 0;
  std::int32_t list_capacity = 0;
};

/// What a kernel is compiled for: code that is not needed would cost registers.
enum class ClusterTask { select, stop_early, select_general, select_by_magnitude };

}  // namespace rtopk::cuda
