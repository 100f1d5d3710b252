// Config of the product kernels, for host and kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/gnn/product.hpp>

#include "core/sizes.hpp"

namespace rtopk::cuda {

// Threads of a block; a multiprocessor has one block. The thread count leaves each thread the registers that its sums
// need. On an H200 (89,250 rows, 256 x 256, k 32) 512 threads take 6 % longer for a product and 18 % for a
// values_gradient with tiles of 32 columns. With wider tiles, and for a matrix_gradient, more threads gain nothing or
// spill.
inline constexpr std::int32_t kProductThreads = 1024;
[[nodiscard]] constexpr std::int32_t values_threads(std::int64_t tile_cols) noexcept {
  return tile_cols == 32 ? 1024 : 512;
}
inline constexpr std::int32_t kMatrixThreads = 512;

// Lanes that share a row of X. In the same measurement four lanes take 10 % longer for both terms. Sixteen take 40 %
// longer for a values_gradient, whose sums they must add up, but are best for a product.
inline constexpr std::int32_t kValuesLanes = 8;
[[nodiscard]] constexpr std::int32_t product_lanes(std::int64_t tile_cols) noexcept { return tile_cols < 64 ? 8 : 16; }

inline constexpr std::int32_t kStagedElements = 32;               ///< Elements of a row of X in shared memory.
inline constexpr std::int32_t kStagePitch = kStagedElements + 1;  ///< Rows begin at different banks.

// matrix_gradient.
inline constexpr std::int32_t kMaxProductChunkRows = 64;
inline constexpr std::int32_t kRangeCols = 256;  ///< Rows of W that a block has sums for.

// matrix_gradient of one column.
inline constexpr std::int32_t kNarrowThreads = 1024;
inline constexpr std::int32_t kNarrowRange = 512;  ///< Rows of W that a block has sums for.

inline constexpr std::int32_t kMinTile = 32;  ///< Columns of W that a block takes at a time.
inline constexpr std::int32_t kMaxTile = 128;

[[nodiscard]] constexpr std::int32_t threads_of(gnn::ProductTerm term, std::int64_t tile_cols) noexcept {
  return tile_cols == 1                              ? kNarrowThreads
         : term == gnn::ProductTerm::product         ? kProductThreads
         : term == gnn::ProductTerm::values_gradient ? values_threads(tile_cols)
                                                     : kMatrixThreads;
}

[[nodiscard]] constexpr std::int32_t rows_of_warp(gnn::ProductTerm term, std::int64_t tile_cols) noexcept {
  return 32 / (term == gnn::ProductTerm::product ? product_lanes(tile_cols) : kValuesLanes);
}

/// matrix_gradient: words of one of a block's two chunks. Rows of dY, values, and two words of bits for each selector.
[[nodiscard]] constexpr std::int64_t chunk_words(std::int64_t rows, std::int64_t tile_cols) noexcept {
  return rows * tile_cols + rows * kRangeCols + 2 * kRangeCols;
}

/// Shared memory of a block that reads W from global memory, and the additional bytes for a tile of W.
[[nodiscard]] constexpr std::int64_t staging_bytes(gnn::ProductTerm term, std::int64_t tile_cols) noexcept {
  // A value and a position in W for each element; a values_gradient has the position only.
  const std::int64_t element = term == gnn::ProductTerm::product ? 8 : 4;
  return threads_of(term, tile_cols) / 32 * rows_of_warp(term, tile_cols) * kStagePitch * element;
}
[[nodiscard]] constexpr std::int64_t tile_bytes(std::int64_t cols, std::int64_t tile_cols) noexcept {
  return (cols + 1) * tile_cols * std::int64_t{sizeof(float)};
}

[[nodiscard]] constexpr std::int64_t tiles_of(const gnn::ProductPlan& plan) noexcept {
  return core::ceil_div(plan.problem.width, plan.cols_per_worker);
}
/// True for the special case of a matrix_gradient with one column.
[[nodiscard]] constexpr bool is_narrow(const gnn::ProductPlan& plan) noexcept { return plan.cols_per_worker == 1; }

[[nodiscard]] constexpr std::int64_t ranges_of(const gnn::ProductPlan& plan) noexcept {
  if (plan.problem.term != gnn::ProductTerm::matrix_gradient) return 1;
  return core::ceil_div(plan.problem.cols, is_narrow(plan) ? kNarrowRange : kRangeCols);
}
/// Blocks that have different columns or rows of W. A block of a values_gradient takes all columns, tile by tile.
[[nodiscard]] constexpr std::int64_t units_of(const gnn::ProductPlan& plan) noexcept {
  return plan.problem.term == gnn::ProductTerm::values_gradient ? 1 : tiles_of(plan) * ranges_of(plan);
}
/// True if a block has its tile of W in shared memory.
[[nodiscard]] constexpr bool has_tile(const gnn::ProductPlan& plan) noexcept {
  return plan.shared_bytes > static_cast<std::size_t>(staging_bytes(plan.problem.term, plan.cols_per_worker));
}

}  // namespace rtopk::cuda
