// Launches the kernels that give eight lanes of a warp a row.
#include "cuda/route/octet.cuh"

#include "core/dispatch.hpp"

namespace rtopk::cuda {
namespace {

template <class T, moe::Score kScore>
cudaError_t launch_with(const RouteArguments& args, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed;
  return launch(&route_octets_kernel<T, kScore>, allowed, grid, args);
}

template <class T>
cudaError_t launch_any(const RouteArguments& args, const Grid& grid) {
  switch (args.score) {
    case moe::Score::softmax: return launch_with<T, moe::Score::softmax>(args, grid);
    case moe::Score::sigmoid: return launch_with<T, moe::Score::sigmoid>(args, grid);
    case moe::Score::sqrtsoftplus: return launch_with<T, moe::Score::sqrtsoftplus>(args, grid);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launch_route_octets(const moe::RoutePlan& plan, const RouteArguments& args, const Grid& grid) {
  return core::with_element_type(plan.problem.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::int32_t>) {
      return cudaErrorInvalidValue;  // refused by check_problem
    } else {
      return launch_any<T>(args, grid);
    }
  });
}

}  // namespace rtopk::cuda
