// Products of compact sparse rows (CBSR) with a dense matrix, and their derivatives: the linear map of a MaxK network's own
// rows, without the zeros. As everywhere here: problem -> make_plan -> run.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/execution.hpp>
#include <rtopk/types.hpp>

namespace rtopk::gnn {

enum class ProductTerm : std::uint8_t {
  product,          ///< Y += X W.
  values_gradient,  ///< (dY W^T) at the selectors of X: what a gradient of Y is for the values of X.
  matrix_gradient,  ///< X^T dY: what it is for W.
};

/// One product, in f32 throughout. X has `rows` rows of `cols` columns, of which k are kept; W is cols x width.
///
/// Sums repeat bit for bit on the same machine: on the CPU with any number of threads, on a GPU with the same plan. Their order
/// depends on a CPU's vector registers, and on the plan for a GPU.
struct Product {
  ProductTerm term = ProductTerm::product;
  std::int64_t rows = 0;                    ///< >= 0.
  std::int64_t cols = 0;                    ///< 1 to 65536.
  std::int64_t k = 0;                       ///< 1 <= k <= cols.
  std::int64_t width = 0;                   ///< >= 1.
  IndexType selector_type = IndexType::u8;  ///< u8 (up to 256 columns) or u16.
  Device device{};

  friend bool operator==(const Product&, const Product&) = default;
};

/// The memory of one run. What the term does not read is ignored. A selector that is not below cols brings nothing, and its place
/// in a gradient is zero. The selectors of a row are distinct, in any order; of two that are equal, what one of them brings to a
/// matrix_gradient may be lost.
struct ProductCall {
  const float* values = nullptr;    ///< rows x k.
  const void* selectors = nullptr;  ///< rows x k.
  const float* matrix = nullptr;    ///< cols x width, W.
  const float* gradient = nullptr;  ///< rows x width, dY.
  float* result = nullptr;          ///< rows x width, rows x k or cols x width. Overlaps nothing else.
};

struct ProductPlan {
  Product problem{};
  std::int32_t threads = 1;          ///< CPU: tasks that share the work. CUDA: threads of a block.
  std::int64_t rows_per_worker = 1;  ///< CPU: rows that a task takes at a time; all of them for matrix_gradient.
      ///< CUDA: that a warp takes at a time; a block for a matrix_gradient of several columns.
  std::int64_t cols_per_worker = 1;  ///< CPU: columns of W that a task takes at a time; all of them for the others.
      ///< CUDA: that a block takes at a time, for any term; 1: a matrix_gradient of one column.
  std::int64_t parts = 1;        ///< CUDA: blocks that share the rows.
  std::size_t shared_bytes = 0;  ///< CUDA: shared memory of a block.

  std::size_t workspace_bytes = 0;  ///< What run() needs. Any alignment. 0 on the CPU.

  friend bool operator==(const ProductPlan&, const ProductPlan&) = default;
};

[[nodiscard]] RTOPK_API const char* name(ProductTerm term) noexcept;

/// Checks `problem` and picks what will run on a machine with these traits. Nothing is allocated or launched.
RTOPK_API Status make_plan(const Product& problem, const Traits& traits, ProductPlan& plan) noexcept;

/// The same, with the traits of `problem.device` as query_traits reads them.
RTOPK_API Status make_plan(const Product& problem, ProductPlan& plan) noexcept;

/// Multiplies. On the CPU the result is there when it returns; on CUDA the work is queued on the stream. Allocates nothing,
/// prints nothing, and may be called from several threads at once. If the status is not ok, nothing was written.
RTOPK_API Status run(const ProductPlan& plan, const ProductCall& call, Workspace workspace = {},
                     const Launch& launch = {}) noexcept;

}  // namespace rtopk::gnn
