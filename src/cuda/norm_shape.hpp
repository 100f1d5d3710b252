// What a plan's numbers mean for memory. Host code alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/norm.hpp>

namespace rtopk::cuda {

inline constexpr std::int32_t kNormThreads = 256;  ///< Of a block.
inline constexpr std::int64_t kNormSums = 3;       ///< Column sums: for gamma, beta and the bias.

/// Elements of a row that each lane of a warp has room for.
[[nodiscard]] constexpr std::int64_t norm_elements_per_lane(std::int64_t cols) noexcept {
  return cols <= 128 ? 4 : cols <= 256 ? 8 : cols <= 512 ? 16 : 32;
}

/// The sums of a block, after the rows; of compact gradients a dense row for each warp, while there are rows.
[[nodiscard]] constexpr std::size_t norm_shared_bytes(const Norm& problem) noexcept {
  if (problem.term == NormTerm::rows) return 0;
  const std::int64_t sums = kNormSums * problem.cols;
  const std::int64_t rows =
      problem.term == NormTerm::compact_gradient ? kNormThreads / 32 * 32 * norm_elements_per_lane(problem.cols) : 0;
  return static_cast<std::size_t>(sums > rows ? sums : rows) * sizeof(float);
}

}  // namespace rtopk::cuda
