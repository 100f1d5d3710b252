// Executes a checked plan and call of a normalization: fills the kernel arguments and launches on a stream.
#include <cuda_runtime_api.h>

#include "cuda/backend.hpp"
#include "cuda/norm/launch.hpp"
#include "cuda/runtime/device_guard.hpp"
#include "cuda/runtime/errors.hpp"
#include "cuda/runtime/workspace.hpp"

namespace rtopk::cuda {
namespace {

/// True if four neighbours of every row and of the column parameters can be accessed at once. Null is aligned.
bool has_quads(const NormArguments& arguments) {
  const gnn::NormCall& call = arguments.call;
  if (arguments.cols % 4 != 0) return false;
  for (const float* address :
       {call.input, call.bias, call.gamma, call.beta, call.gradient, static_cast<const float*>(call.result)}) {
    if (reinterpret_cast<std::uintptr_t>(address) % (4 * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace

Status run(const gnn::NormPlan& plan, const gnn::NormCall& call, void* workspace, void* stream) noexcept {
  const gnn::Norm& problem = plan.problem;
  if (problem.rows == 0 && problem.term == gnn::NormTerm::rows) return {};
  const DeviceGuard device(problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  NormArguments arguments{.call = call,
                          .rows = static_cast<std::int32_t>(problem.rows),
                          .cols = static_cast<std::int32_t>(problem.cols),
                          .k = static_cast<std::int32_t>(problem.k),
                          .epsilon = problem.epsilon};
  // Pointers that the term does not use may be anything.
  if (!problem.biased) arguments.call.bias = arguments.call.bias_gradient = nullptr;
  if (problem.term != gnn::NormTerm::rows) arguments.call.beta = nullptr;
  if (problem.term != gnn::NormTerm::gradient) arguments.call.gradient = nullptr;
  if (problem.rows == 0) arguments.call.input = arguments.call.gradient = arguments.call.result = nullptr;
  arguments.partial_sums = reinterpret_cast<float*>(aligned_base(workspace));
  const Grid grid{plan.blocks, plan.threads, plan.shared_bytes, problem.device.ordinal,
                  static_cast<cudaStream_t>(stream)};
  return launched(launch_norm(plan, arguments, has_quads(arguments), grid));
}

}  // namespace rtopk::cuda
