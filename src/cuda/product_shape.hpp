// What a product's numbers mean for memory. Host code alone, but for constants.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/product.hpp>

namespace rtopk::cuda {

inline constexpr std::int32_t kMultiplyThreads = 512;  ///< Of a block; a multiprocessor has one.

// product and values_gradient: a warp has 32 / lanes rows side by side.
inline constexpr std::int32_t kProductLanes = 4;
inline constexpr std::int32_t kValuesLanes = 8;
inline constexpr std::int32_t kStagedElements = 32;               ///< Of a row of X, in shared memory.
inline constexpr std::int32_t kStagePitch = kStagedElements + 1;  ///< Rows begin at different banks.

// matrix_gradient.
inline constexpr std::int32_t kMostChunkRows = 64;
inline constexpr std::int32_t kRangeCols = 256;  ///< Rows of W that a block has sums for.

inline constexpr std::int32_t kLeastTile = 32;  ///< Columns of W that a block takes at a time.
inline constexpr std::int32_t kMostTile = 128;

[[nodiscard]] constexpr std::int64_t quotient_up(std::int64_t x, std::int64_t by) noexcept { return (x + by - 1) / by; }

/// matrix_gradient: of one of the two chunks that a block has. Rows of dY, values, and a bit for each of these.
[[nodiscard]] constexpr std::int64_t chunk_words(std::int64_t rows, std::int64_t tile_cols) noexcept {
  return rows * tile_cols + rows * kRangeCols + rows / 32 * kRangeCols;
}

/// What a block needs to read W from global memory, and what it needs for a tile of it.
[[nodiscard]] constexpr std::int64_t staging_bytes(ProductTerm term) noexcept {
  // A value and a place in W for each element; for a values_gradient the place alone.
  return term == ProductTerm::product ? kMultiplyThreads / kProductLanes * kStagePitch * std::int64_t{8}
                                      : kMultiplyThreads / kValuesLanes * kStagePitch * std::int64_t{4};
}
[[nodiscard]] constexpr std::int64_t tile_bytes(std::int64_t cols, std::int64_t tile_cols) noexcept {
  return (cols + 1) * tile_cols * std::int64_t{sizeof(float)};
}

[[nodiscard]] constexpr std::int64_t tiles_of(const ProductPlan& plan) noexcept {
  return quotient_up(plan.problem.width, plan.cols_per_worker);
}
[[nodiscard]] constexpr std::int64_t ranges_of(const ProductPlan& plan) noexcept {
  return plan.problem.term == ProductTerm::matrix_gradient ? quotient_up(plan.problem.cols, kRangeCols) : 1;
}
/// Blocks that work on other columns or rows of W. A block of a values_gradient takes all columns, tile by tile.
[[nodiscard]] constexpr std::int64_t units_of(const ProductPlan& plan) noexcept {
  return plan.problem.term == ProductTerm::values_gradient ? 1 : tiles_of(plan) * ranges_of(plan);
}
/// Whether a block has its tile of W in shared memory.
[[nodiscard]] constexpr bool has_tile(const ProductPlan& plan) noexcept {
  return plan.shared_bytes > static_cast<std::size_t>(staging_bytes(plan.problem.term));
}

}  // namespace rtopk::cuda
