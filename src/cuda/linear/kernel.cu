// Launches the kernels of a linear map's plan.
#include "cuda/linear/kernel.cuh"
#include "cuda/runtime/add_parts.cuh"

namespace rtopk::cuda {
namespace {

template <bool kAlongA, bool kAlongB>
cudaError_t launch_product(const LinearArguments& args, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed;
  return launch(&linear_kernel<kAlongA, kAlongB>, allowed, grid, args);
}

}  // namespace

cudaError_t launch_linear(const gnn::LinearPlan& plan, const LinearArguments& args, float* result, const Grid& grid) {
  if (plan.problem.term == gnn::LinearTerm::product) return launch_product<true, true>(args, grid);
  if (plan.problem.term == gnn::LinearTerm::input_gradient) return launch_product<true, false>(args, grid);
  const cudaError_t error = launch_product<false, false>(args, grid);
  if (error != cudaSuccess || plan.parts == 1) return error;
  return launch_add_parts(args.result, result, args.shape.m * args.shape.n, static_cast<std::int32_t>(plan.parts),
                          grid);
}

}  // namespace rtopk::cuda
