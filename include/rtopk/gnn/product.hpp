// Products of compact balanced sparse rows (CBSR) with a dense matrix, and their gradients: the linear layer that
// reads the MaxK output of a node itself, without multiplying zeros. Usage: problem -> make_plan -> run.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/execution.hpp>
#include <rtopk/types.hpp>

namespace rtopk::gnn {

/// What a product computes.
enum class ProductTerm : std::uint8_t {
  product,          ///< Y += X W.
  values_gradient,  ///< dY W^T, computed only at the selectors of X: the gradient of the values of X.
  matrix_gradient,  ///< X^T dY: the gradient of W.
};

/// One product, in f32. X is a rows x cols matrix, stored as k values and selectors (column numbers) per row. W is
/// cols x width.
///
/// Results repeat bit for bit on the same machine: on the CPU with any number of threads, on a GPU with the same plan.
/// The order of additions depends on the vector width of the CPU, or on the plan for a GPU.
struct Product {
  ProductTerm term = ProductTerm::product;
  std::int64_t rows = 0;                    ///< >= 0.
  std::int64_t cols = 0;                    ///< 1 to 65536.
  std::int64_t k = 0;                       ///< 1 <= k <= cols.
  std::int64_t width = 0;                   ///< >= 1.
  IndexType selector_type = IndexType::u8;  ///< u8 (for at most 256 columns) or u16.
  Device device{};

  friend bool operator==(const Product&, const Product&) = default;
};

/// The memory of one run. Pointers that the term does not use are ignored. A selector >= cols contributes nothing, and
/// its element of a gradient is zero. The selectors of a row must be distinct, in any order. If two are equal, the
/// contribution of one of them to a matrix_gradient may be lost.
struct ProductCall {
  const float* values = nullptr;    ///< The values of X, rows x k.
  const void* selectors = nullptr;  ///< The selectors of X, rows x k.
  const float* matrix = nullptr;    ///< W, cols x width.
  const float* gradient = nullptr;  ///< dY, rows x width.
  /// product: rows x width; values_gradient: rows x k; matrix_gradient: cols x width. Must not overlap other memory.
  float* result = nullptr;
};

/// What run() executes: a problem and its config.
struct ProductPlan {
  Product problem{};
  std::int32_t threads = 1;  ///< CPU: number of tasks. CUDA: threads of a block.
  /// CPU: rows that a task takes at a time; all rows for matrix_gradient. CUDA: rows that a warp takes at a time, or a
  /// block for a matrix_gradient with several columns.
  std::int64_t rows_per_worker = 1;
  /// CPU: columns of W that a task takes at a time for matrix_gradient; all columns for the other terms. CUDA: columns
  /// that a block takes at a time, for every term; 1 is only for a matrix_gradient of width 1.
  std::int64_t cols_per_worker = 1;
  std::int64_t parts = 1;        ///< CUDA: blocks that share the rows.
  std::size_t shared_bytes = 0;  ///< CUDA: shared memory of a block.

  std::size_t workspace_bytes = 0;  ///< Workspace that run() needs. Any alignment. 0 on the CPU.

  friend bool operator==(const ProductPlan&, const ProductPlan&) = default;
};

/// The name of the enumerator, or "?" if the value is not an enumerator.
[[nodiscard]] RTOPK_API const char* name(ProductTerm term) noexcept;

/// Checks `problem` and plans it for a machine with these traits. Allocates and launches nothing.
RTOPK_API Status make_plan(const Product& problem, const Traits& traits, ProductPlan& plan) noexcept;

/// The same, with the traits that query_traits reads for `problem.device`.
RTOPK_API Status make_plan(const Product& problem, ProductPlan& plan) noexcept;

/// Runs the product. On the CPU the result is complete on return. On CUDA the work is queued on the stream. Allocates
/// nothing and prints nothing. Several threads may call it at once. If the status is not ok, nothing was written.
RTOPK_API Status run(const ProductPlan& plan, const ProductCall& call, Workspace workspace = {},
                     const Launch& launch = {}) noexcept;

}  // namespace rtopk::gnn
