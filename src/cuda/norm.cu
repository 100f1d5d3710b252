// From a plan to the kernels of a normalization.
#include <type_traits>

#include "norm_kernels.cuh"

namespace rtopk::cuda {
namespace {

/// Calls f with the elements that a lane has of a row, and with whether they are accessed by four, as constants.
template <class F>
cudaError_t with_row(std::int64_t cols, bool quads, F&& f) {
  const auto with_elements = [&]<bool kQuads>(std::bool_constant<kQuads> by_four) {
    switch (norm_elements_per_lane(cols)) {
      case 4: return f(std::integral_constant<int, 4>{}, by_four);
      case 8: return f(std::integral_constant<int, 8>{}, by_four);
      case 16: return f(std::integral_constant<int, 16>{}, by_four);
      default: return f(std::integral_constant<int, 32>{}, by_four);
    }
  };
  return quads ? with_elements(std::true_type{}) : with_elements(std::false_type{});
}

template <bool kCompact>
cudaError_t launch_gradient(const NormArguments& arguments, bool quads, const Grid& grid) {
  return with_row(arguments.cols, quads,
                  [&]<int kPerLane, bool kQuads>(std::integral_constant<int, kPerLane>, std::bool_constant<kQuads>) {
                    static std::atomic<std::uint64_t> allowed;
                    return launch(&norm_gradient_kernel<kPerLane, kQuads, kCompact>, allowed, grid, arguments);
                  });
}

cudaError_t launch_finish(const NormPlan& plan, const NormArguments& arguments, Grid grid) {
  static std::atomic<std::uint64_t> allowed;
  grid.blocks = (kNormSums * arguments.cols + 31) / 32;
  grid.threads = kNormFinishThreads;
  grid.shared_bytes = 0;
  return launch(&norm_finish_kernel, allowed, grid, arguments, static_cast<std::int32_t>(plan.blocks));
}

}  // namespace

cudaError_t launch_norm(const NormPlan& plan, const NormArguments& arguments, bool quads, Grid grid) {
  if (plan.problem.term == NormTerm::rows) {
    return with_row(arguments.cols, quads,
                    [&]<int kPerLane, bool kQuads>(std::integral_constant<int, kPerLane>, std::bool_constant<kQuads>) {
                      static std::atomic<std::uint64_t> allowed;
                      return launch(&norm_rows_kernel<kPerLane, kQuads>, allowed, grid, arguments);
                    });
  }
  const cudaError_t error = plan.problem.term == NormTerm::compact_gradient
                                ? launch_gradient<true>(arguments, quads, grid)
                                : launch_gradient<false>(arguments, quads, grid);
  return error == cudaSuccess ? launch_finish(plan, arguments, grid) : error;
}

}  // namespace rtopk::cuda
