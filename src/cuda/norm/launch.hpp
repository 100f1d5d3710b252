// Kernel arguments of a normalization, and the entry point of its kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <rtopk/gnn/norm.hpp>

#include "cuda/runtime/launch.hpp"

namespace rtopk::cuda {

struct NormArguments {
  gnn::NormCall call;             ///< bias and bias_gradient are null if there is no bias.
  float* partial_sums = nullptr;  ///< Gradients: kNormSums rows of cols for every block.
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::int32_t k = 0;
  float epsilon = 0.0f;
};

/// Enqueues all kernels of a plan. `quads`: four neighbours of a row can be accessed at once.
cudaError_t launch_norm(const gnn::NormPlan& plan, const NormArguments& args, bool quads, Grid grid);

}  // namespace rtopk::cuda
