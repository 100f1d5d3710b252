// The entry point of a product's kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <rtopk/gnn/product.hpp>

#include "cuda/product/arguments.hpp"
#include "cuda/runtime/launch.hpp"

namespace rtopk::cuda {

/// Enqueues all kernels of a plan.
cudaError_t launch_product(const gnn::ProductPlan& plan, const ProductArguments& args, const Grid& grid);

}  // namespace rtopk::cuda
