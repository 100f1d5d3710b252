// From a plan to the kernels of a product of compact rows.
#include <type_traits>

#include "add_parts.cuh"
#include "product_add.cuh"
#include "product_launch.hpp"
#include "product_matrix.cuh"
#include "product_narrow.cuh"
#include "product_values.cuh"

namespace rtopk::cuda {
namespace {

/// Calls f with a tile's columns as a constant.
template <class F>
cudaError_t with_tile(std::int64_t cols, F&& f) {
  if (cols == 128) return f(std::integral_constant<int, 128>{});
  if (cols == 64) return f(std::integral_constant<int, 64>{});
  return f(std::integral_constant<int, 32>{});
}

/// Calls f with a tile's columns, and with whether a block has it in shared memory: with less than all columns it always has.
template <class F>
cudaError_t with_matrix(const ProductPlan& plan, F&& f) {
  if (!has_tile(plan)) return f(std::integral_constant<int, kMostTile>{}, std::false_type{});
  return with_tile(plan.cols_per_worker, [&](auto tile) { return f(tile, std::true_type{}); });
}

cudaError_t launch_sums(const ProductPlan& plan, const MultiplyCall& call, const Grid& grid) {
  if (is_narrow(plan)) {
    static std::atomic<std::uint64_t> allowed;
    return launch(&narrow_gradient_kernel, allowed, grid, call);
  }
  return with_tile(plan.cols_per_worker, [&]<int kTile>(std::integral_constant<int, kTile>) {
    static std::atomic<std::uint64_t> allowed;
    return launch(&matrix_gradient_kernel<kTile>, allowed, grid, call);
  });
}

cudaError_t launch_matrix_gradient(const ProductPlan& plan, const MultiplyCall& call, const Grid& grid) {
  const cudaError_t error = launch_sums(plan, call, grid);
  if (error != cudaSuccess || call.partial_sums == nullptr) return error;
  return launch_add_parts(call.partial_sums, call.result, call.cols * call.width, call.parts, grid);
}

}  // namespace

cudaError_t launch_product(const ProductPlan& plan, const MultiplyCall& call, const Grid& grid) {
  switch (plan.problem.term) {
    case ProductTerm::product:
      return with_matrix(plan,
                         [&]<int kTile, bool kStaged>(std::integral_constant<int, kTile>, std::bool_constant<kStaged>) {
                           static std::atomic<std::uint64_t> allowed;
                           return launch(&product_kernel<kTile, kStaged>, allowed, grid, call);
                         });
    case ProductTerm::values_gradient:
      return with_matrix(plan,
                         [&]<int kTile, bool kStaged>(std::integral_constant<int, kTile>, std::bool_constant<kStaged>) {
                           static std::atomic<std::uint64_t> allowed;
                           return launch(&values_gradient_kernel<kTile, kStaged>, allowed, grid, call);
                         });
    case ProductTerm::matrix_gradient: return launch_matrix_gradient(plan, call, grid);
  }
  return cudaErrorInvalidValue;
}

}  // namespace rtopk::cuda
