// What the kernels of a linear map are told, and their entry point.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/runtime/launch.hpp"
#include "plan/tuning_linear.hpp"

namespace rtopk::cuda {

struct LinearArguments {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* bias = nullptr;  ///< For every column of C; null where there is none.
  float* result = nullptr;      ///< C, or that of every part.
  LinearShape shape{};
  std::int64_t depth_of_part = 0;
};

/// Queues all kernels of a plan. `result` is C; `arguments.result` is where parts of it go if there are several.
cudaError_t launch_linear(const gnn::LinearPlan& plan, const LinearArguments& args, float* result, const Grid& grid);

}  // namespace rtopk::cuda
