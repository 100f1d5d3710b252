// Kernel arguments of a linear map, and the entry point of its kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/runtime/launch.hpp"
#include "plan/tuning_linear.hpp"

namespace rtopk::cuda {

struct LinearArguments {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* bias = nullptr;  ///< For every column of C; null if there is none.
  float* result = nullptr;      ///< C, or the partial sums of every part.
  LinearShape shape{};
  std::int64_t depth_of_part = 0;
};

/// Enqueues all kernels of a plan. `result` is C; `args.result` receives the partial sums if there are several parts.
cudaError_t launch_linear(const gnn::LinearPlan& plan, const LinearArguments& args, float* result, const Grid& grid);

}  // namespace rtopk::cuda
