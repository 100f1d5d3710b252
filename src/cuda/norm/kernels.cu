// Launches the kernels of a normalization's plan.
#include <type_traits>

#include "cuda/norm/kernels.cuh"

namespace rtopk::cuda {
namespace {

/// Calls f with two constants: the elements that a lane has of a row, and whether it accesses four at once. Single
/// accesses have at most 16 elements: see core/gnn/norm_checks.cpp.
template <class F>
cudaError_t with_row(std::int64_t cols, bool quads, F&& f) {
  const auto with_elements = [&]<bool kQuads>(std::bool_constant<kQuads> by_four) {
    switch (norm_elements_per_lane(cols)) {
      case 4: return f(std::integral_constant<int, 4>{}, by_four);
      case 8: return f(std::integral_constant<int, 8>{}, by_four);
      case 16: return f(std::integral_constant<int, 16>{}, by_four);
      default: return f(std::integral_constant < int, kQuads ? 32 : 16 > {}, by_four);
    }
  };
  return quads ? with_elements(std::true_type{}) : with_elements(std::false_type{});
}

template <class Selector>
cudaError_t launch_gradient(const NormArguments& args, bool quads, const Grid& grid) {
  return with_row(args.cols, quads,
                  [&]<int kPerLane, bool kQuads>(std::integral_constant<int, kPerLane>, std::bool_constant<kQuads>) {
                    static std::atomic<std::uint64_t> allowed;
                    // More than 256 columns have 16-bit selectors.
                    using Possible =
                        std::conditional_t<kPerLane <= 8 || std::is_void_v<Selector>, Selector, std::uint16_t>;
                    return launch(&norm_gradient_kernel<kPerLane, kQuads, Possible>, allowed, grid, args);
                  });
}

cudaError_t launch_finish(const gnn::NormPlan& plan, const NormArguments& args, Grid grid) {
  static std::atomic<std::uint64_t> allowed;
  grid.blocks = (kNormSums * args.cols + 31) / 32;
  grid.threads = kNormFinishThreads;
  grid.shared_bytes = 0;
  grid.overlaps_previous = true;
  return launch(&norm_finish_kernel, allowed, grid, args, static_cast<std::int32_t>(plan.blocks));
}

}  // namespace

cudaError_t launch_norm(const gnn::NormPlan& plan, const NormArguments& args, bool quads, Grid grid) {
  const gnn::Norm& problem = plan.problem;
  if (problem.term == gnn::NormTerm::rows) {
    return with_row(args.cols, quads,
                    [&]<int kPerLane, bool kQuads>(std::integral_constant<int, kPerLane>, std::bool_constant<kQuads>) {
                      static std::atomic<std::uint64_t> allowed;
                      return launch(&norm_rows_kernel<kPerLane, kQuads>, allowed, grid, args);
                    });
  }
  const cudaError_t error = problem.term == gnn::NormTerm::gradient ? launch_gradient<void>(args, quads, grid)
                            : problem.selector_type == IndexType::u8
                                ? launch_gradient<std::uint8_t>(args, quads, grid)
                                : launch_gradient<std::uint16_t>(args, quads, grid);
  return error == cudaSuccess ? launch_finish(plan, args, grid) : error;
}

}  // namespace rtopk::cuda
