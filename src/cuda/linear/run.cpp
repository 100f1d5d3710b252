// Executes a checked plan and call of a linear map: fills the kernel arguments and launches on a stream.
#include <cuda_runtime_api.h>

#include "cuda/backend.hpp"
#include "cuda/linear/launch.hpp"
#include "cuda/runtime/device_guard.hpp"
#include "cuda/runtime/errors.hpp"
#include "cuda/runtime/workspace.hpp"

namespace rtopk::cuda {

Status run(const gnn::LinearPlan& plan, const gnn::LinearCall& call, void* workspace, void* stream) noexcept {
  const gnn::Linear& problem = plan.problem;
  LinearArguments args{.shape = shape_of(problem)};
  if (args.shape.m == 0) return {};
  const DeviceGuard device(problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  args.a = problem.term == gnn::LinearTerm::product ? call.input : call.gradient;
  args.b = problem.term == gnn::LinearTerm::matrix_gradient ? call.input : call.matrix;
  if (problem.term == gnn::LinearTerm::product && problem.biased) args.bias = call.bias;
  args.result = plan.parts == 1 ? call.result : reinterpret_cast<float*>(aligned_base(workspace));
  args.depth_of_part = args.shape.depth_of_part(plan.parts);
  const Grid grid{args.shape.tiles() * plan.parts, kLinearThreads, kLinearSharedBytes, problem.device.ordinal,
                  static_cast<cudaStream_t>(stream)};
  return launched(launch_linear(plan, args, call.result, grid));
}

}  // namespace rtopk::cuda
