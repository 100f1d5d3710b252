// Launches the routing kernel of a plan.
#include "core/dispatch.hpp"
#include "cuda/route/kernel.cuh"

namespace rtopk::cuda {
namespace {

template <class T, int kPerLane, moe::Score kScore>
cudaError_t launch_with(const RouteArguments& args, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed;
  return launch(&route_kernel<T, kPerLane, kScore>, allowed, grid, args);
}

template <class T, int kPerLane>
cudaError_t launch_fast(const RouteArguments& args, const Grid& grid) {
  switch (args.score) {
    case moe::Score::softmax: return launch_with<T, kPerLane, moe::Score::softmax>(args, grid);
    case moe::Score::sigmoid: return launch_with<T, kPerLane, moe::Score::sigmoid>(args, grid);
    case moe::Score::sqrtsoftplus: return launch_with<T, kPerLane, moe::Score::sqrtsoftplus>(args, grid);
  }
  return cudaErrorInvalidValue;
}

template <class T>
cudaError_t launch_any(const RouteArguments& args, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed;
  if (args.experts <= kMaxFewExperts && args.rows_at_once == kRowsOfLanes) {
    return args.experts <= 8 ? launch(&route_few_kernel<T, 8>, allowed, grid, args)
                             : launch(&route_few_kernel<T, 16>, allowed, grid, args);
  }
  if (!args.fast) return launch(&route_exactly_kernel<T>, allowed, grid, args);
  switch (route_experts_per_lane(args.experts)) {
    case 4: return launch_fast<T, 4>(args, grid);
    case 8: return launch_fast<T, 8>(args, grid);
    case 12: return launch_fast<T, 12>(args, grid);
    case 16: return launch_fast<T, 16>(args, grid);
    default: return launch_fast<T, 32>(args, grid);
  }
}

}  // namespace

cudaError_t launch_route(const moe::RoutePlan& plan, const RouteArguments& args, const Grid& grid) {
  const bool lanes_have_rows = args.rows_at_once == kRowsOfLanes && args.experts > kMaxFewExperts;
  if (lanes_have_rows && args.fast) return launch_route_lanes(plan, args, grid);
  if (are_rows_of_octets(args.rows_at_once) && args.fast) return launch_route_octets(plan, args, grid);
  return core::with_element_type(plan.problem.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::int32_t>) {
      return cudaErrorInvalidValue;  // refused by check_problem
    } else {
      return launch_any<T>(args, grid);
    }
  });
}

}  // namespace rtopk::cuda
