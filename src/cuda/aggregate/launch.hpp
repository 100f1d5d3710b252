// The entry point of an aggregation's kernels, compiled once for every element type: see CMakeLists.txt.
#pragma once

#include <cuda_runtime_api.h>

#include <rtopk/gnn/aggregate.hpp>

#include "cuda/aggregate/arguments.hpp"
#include "cuda/runtime/launch.hpp"

namespace rtopk::cuda {

/// Enqueues all kernels of a plan. `vector` elements of a node, 1, 2 or 4, can be accessed at once.
template <class T>
cudaError_t launch_aggregation(const gnn::AggregationPlan& plan, const AggregateArguments& args, int vector, Grid grid);

}  // namespace rtopk::cuda
