// From a plan and a call of a linear map that were checked to kernels on a stream.
#include <cuda_runtime_api.h>

#include "backend.hpp"
#include "device_guard.hpp"
#include "linear_launch.hpp"
#include "runtime.hpp"
#include "workspace.hpp"

namespace rtopk::cuda {

Status run(const LinearPlan& plan, const LinearCall& call, void* workspace, void* stream) noexcept {
  const Linear& problem = plan.problem;
  LinearArguments arguments{.shape = shape_of(problem)};
  if (arguments.shape.m == 0) return {};
  const DeviceGuard device(problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  arguments.a = problem.term == LinearTerm::product ? call.input : call.gradient;
  arguments.b = problem.term == LinearTerm::matrix_gradient ? call.input : call.matrix;
  if (problem.term == LinearTerm::product && problem.biased) arguments.bias = call.bias;
  arguments.result = plan.parts == 1 ? call.result : reinterpret_cast<float*>(aligned_base(workspace));
  arguments.depth_of_part = arguments.shape.depth_of_part(plan.parts);
  const Grid grid{arguments.shape.tiles() * plan.parts, kLinearThreads, kLinearSharedBytes, problem.device.ordinal,
                  static_cast<cudaStream_t>(stream)};
  return launched(launch_linear(plan, arguments, call.result, grid));
}

}  // namespace rtopk::cuda
