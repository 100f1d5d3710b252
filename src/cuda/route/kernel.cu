// Launches the routing kernel of a plan.
#include "core/dispatch.hpp"
#include "cuda/route/kernel.cuh"

namespace rtopk::cuda {
namespace {

template <class T, int kPerLane>
cudaError_t launch_with(const RouteArguments& args, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed;
  return launch(&route_kernel<T, kPerLane>, allowed, grid, args);
}

}  // namespace

cudaError_t launch_route(const moe::RoutePlan& plan, const RouteArguments& args, const Grid& grid) {
  return core::with_element_type(plan.problem.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::int32_t>) {
      return cudaErrorInvalidValue;  // refused by check_problem
    } else {
      switch (route_experts_per_lane(args.experts)) {
        case 4: return launch_with<T, 4>(args, grid);
        case 8: return launch_with<T, 8>(args, grid);
        case 16: return launch_with<T, 16>(args, grid);
        default: return launch_with<T, 32>(args, grid);
      }
    }
  });
}

}  // namespace rtopk::cuda
