// Products of compact sparse rows (CBSR) with a dense matrix, and their derivatives: the linear map of a MaxK network's own
// rows, without the zeros. As everywhere here: problem -> make_plan -> run.
#pragma once

#include <cstdint>

#include <rtopk/plan.hpp>
#include <rtopk/rtopk.hpp>
#include <rtopk/types.hpp>

namespace rtopk {

enum class ProductTerm : std::uint8_t {
  product,          ///< Y += X W.
  values_gradient,  ///< (dY W^T) at the selectors of X: what a gradient of Y is for the values of X.
  matrix_gradient,  ///< X^T dY: what it is for W.
};

/// One product, in f32 and on the CPU. X has `rows` rows of `cols` columns, of which k are kept; W is cols x width.
///
/// Sums repeat bit for bit on the same machine, with any number of threads. Their order depends on its vector registers.
struct Product {
  ProductTerm term = ProductTerm::product;
  std::int64_t rows = 0;                    ///< >= 0.
  std::int64_t cols = 0;                    ///< 1 to 65536.
  std::int64_t k = 0;                       ///< 1 <= k <= cols.
  std::int64_t width = 0;                   ///< >= 1.
  IndexType selector_type = IndexType::u8;  ///< u8 (up to 256 columns) or u16.
  Device device{};                          ///< The CPU; a GPU multiplies dense blocks faster.

  friend bool operator==(const Product&, const Product&) = default;
};

/// The memory of one run. What the term does not read is ignored. A selector that is not below cols brings nothing.
struct ProductCall {
  const float* values = nullptr;    ///< rows x k.
  const void* selectors = nullptr;  ///< rows x k.
  const float* matrix = nullptr;    ///< cols x width, W.
  const float* gradient = nullptr;  ///< rows x width, dY.
  float* result = nullptr;          ///< rows x width, rows x k or cols x width. Overlaps nothing else.
};

struct ProductPlan {
  Product problem{};
  std::int32_t threads = 1;          ///< Tasks that share the work.
  std::int64_t rows_per_worker = 1;  ///< Rows that a task takes at a time; all of them for matrix_gradient.
  std::int64_t cols_per_worker = 1;  ///< Columns of W that a task takes at a time; all of them for the others.

  friend bool operator==(const ProductPlan&, const ProductPlan&) = default;
};

[[nodiscard]] RTOPK_API const char* name(ProductTerm term) noexcept;

/// Checks `problem` and picks what will run on a machine with these traits. Nothing is allocated.
RTOPK_API Status make_plan(const Product& problem, const Traits& traits, ProductPlan& plan) noexcept;

/// Multiplies; the result is there when it returns. Allocates nothing, prints nothing, and may be called from several threads
/// at once. If the status is not ok, nothing was written.
RTOPK_API Status run(const ProductPlan& plan, const ProductCall& call, const Launch& launch = {}) noexcept;

}  // namespace rtopk
