// The entry point of a product's kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <rtopk/product.hpp>

#include "launch.hpp"
#include "product_call.hpp"

namespace rtopk::cuda {

/// Queues all kernels of a plan.
cudaError_t launch_product(const ProductPlan& plan, const MultiplyCall& call, const Grid& grid);

}  // namespace rtopk::cuda
