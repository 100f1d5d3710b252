// From a plan to the kernels of a linear map.
#include "add_parts.cuh"
#include "linear_kernel.cuh"

namespace rtopk::cuda {
namespace {

template <bool kAlongA, bool kAlongB>
cudaError_t launch_product(const LinearArguments& arguments, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed;
  return launch(&linear_kernel<kAlongA, kAlongB>, allowed, grid, arguments);
}

}  // namespace

cudaError_t launch_linear(const LinearPlan& plan, const LinearArguments& arguments, float* result, const Grid& grid) {
  if (plan.problem.term == LinearTerm::product) return launch_product<true, true>(arguments, grid);
  if (plan.problem.term == LinearTerm::input_gradient) return launch_product<true, false>(arguments, grid);
  const cudaError_t error = launch_product<false, false>(arguments, grid);
  if (error != cudaSuccess || plan.parts == 1) return error;
  return launch_add_parts(arguments.result, result, arguments.shape.m * arguments.shape.n,
                          static_cast<std::int32_t>(plan.parts), grid);
}

}  // namespace rtopk::cuda
