// Launches the kernels of a plan for a product of compact rows.
#include <type_traits>

#include "cuda/product/add.cuh"
#include "cuda/product/launch.hpp"
#include "cuda/product/matrix.cuh"
#include "cuda/product/narrow.cuh"
#include "cuda/product/values.cuh"
#include "cuda/runtime/add_parts.cuh"

namespace rtopk::cuda {
namespace {

/// Calls f with a tile's columns as a constant.
template <class F>
cudaError_t with_tile(std::int64_t cols, F&& f) {
  if (cols == 128) return f(std::integral_constant<int, 128>{});
  if (cols == 64) return f(std::integral_constant<int, 64>{});
  return f(std::integral_constant<int, 32>{});
}

/// Calls f with a tile's columns, and with a constant that tells whether W's tile is in shared memory. Tiles narrower
/// than kMaxTile always are.
template <class F>
cudaError_t with_matrix(const gnn::ProductPlan& plan, F&& f) {
  if (!has_tile(plan)) return f(std::integral_constant<int, kMaxTile>{}, std::false_type{});
  return with_tile(plan.cols_per_worker, [&](auto tile) { return f(tile, std::true_type{}); });
}

cudaError_t launch_sums(const gnn::ProductPlan& plan, const ProductArguments& args, const Grid& grid) {
  if (is_narrow(plan)) {
    static std::atomic<std::uint64_t> allowed;
    return launch(&narrow_gradient_kernel, allowed, grid, args);
  }
  return with_tile(plan.cols_per_worker, [&]<int kTile>(std::integral_constant<int, kTile>) {
    static std::atomic<std::uint64_t> allowed;
    return launch(&matrix_gradient_kernel<kTile>, allowed, grid, args);
  });
}

cudaError_t launch_matrix_gradient(const gnn::ProductPlan& plan, const ProductArguments& args, const Grid& grid) {
  const cudaError_t error = launch_sums(plan, args, grid);
  if (error != cudaSuccess || args.partial_sums == nullptr) return error;
  return launch_add_parts(args.partial_sums, args.result, args.cols * args.width, args.parts, grid);
}

}  // namespace

cudaError_t launch_product(const gnn::ProductPlan& plan, const ProductArguments& args, const Grid& grid) {
  switch (plan.problem.term) {
    case gnn::ProductTerm::product:
      return with_matrix(plan,
                         [&]<int kTile, bool kStaged>(std::integral_constant<int, kTile>, std::bool_constant<kStaged>) {
                           static std::atomic<std::uint64_t> allowed;
                           return launch(&product_kernel<kTile, kStaged>, allowed, grid, args);
                         });
    case gnn::ProductTerm::values_gradient:
      return with_matrix(plan,
                         [&]<int kTile, bool kStaged>(std::integral_constant<int, kTile>, std::bool_constant<kStaged>) {
                           static std::atomic<std::uint64_t> allowed;
                           return launch(&values_gradient_kernel<kTile, kStaged>, allowed, grid, args);
                         });
    case gnn::ProductTerm::matrix_gradient: return launch_matrix_gradient(plan, args, grid);
  }
  return cudaErrorInvalidValue;
}

}  // namespace rtopk::cuda
