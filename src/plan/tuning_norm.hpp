// Config of the normalization kernels, for host and kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/gnn/norm.hpp>

namespace rtopk::cuda {

inline constexpr std::int32_t kNormThreads = 256;  ///< Of a block.
inline constexpr std::int64_t kNormSums = 3;       ///< Column sums: for gamma, beta and the bias.

/// Elements of a row that each lane of a warp holds.
[[nodiscard]] constexpr std::int64_t norm_elements_per_lane(std::int64_t cols) noexcept {
  return cols <= 128 ? 4 : cols <= 256 ? 8 : cols <= 512 ? 16 : 32;
}

/// Blocks on a multiprocessor at a time, as many as registers allow. A plan launches no more: a block goes on with
/// further rows, and each block of a gradient leaves sums that must be added up. With 256 columns and 716,847 rows an
/// H200 takes 365 us for rows with 3 blocks and 371 with 4; for gradients 530 with 2 and 536 with 3, because 3 leave no
/// registers to read ahead.
[[nodiscard]] constexpr std::int32_t norm_blocks_for_rows(std::int64_t elements_per_lane) noexcept {
  return elements_per_lane <= 4 ? 5 : elements_per_lane <= 16 ? 3 : 1;
}
[[nodiscard]] constexpr std::int32_t norm_blocks_for_gradients(std::int64_t elements_per_lane) noexcept {
  return elements_per_lane <= 4 ? 3 : elements_per_lane <= 8 ? 2 : 1;
}

/// Gradients: the block's sums, written after the last row. Compact gradients use the same memory before that for a
/// dense row of each warp.
[[nodiscard]] constexpr std::size_t norm_shared_bytes(const gnn::Norm& problem) noexcept {
  if (problem.term == gnn::NormTerm::rows) return 0;
  const std::int64_t sums = kNormSums * problem.cols;
  const std::int64_t rows = problem.term == gnn::NormTerm::compact_gradient
                                ? kNormThreads / 32 * 32 * norm_elements_per_lane(problem.cols)
                                : 0;
  return static_cast<std::size_t>(sums > rows ? sums : rows) * sizeof(float);
}

}  // namespace rtopk::cuda
