// Config of the dense product C = A B, for host and kernel. A is m x depth, B is depth x n.
#pragma once

#include <cstddef>
#include <cstdint>

#include "internal/linear.hpp"

namespace rtopk::cuda {

/// A block is one warpgroup, which holds a tile of C in registers.
inline constexpr std::int32_t kLinearThreads = 128;
inline constexpr std::int32_t kLinearTileM = 64;
inline constexpr std::int32_t kLinearTileN = 128;
inline constexpr std::int32_t kLinearStep = 32;  ///< Of the depth: what a block has in shared memory at a time.
/// One block splits a step into parts while the other multiplies.
inline constexpr std::int32_t kLinearBlocksPerMultiprocessor = 2;

// A step of B in shared memory. Units of eight bf16; eight units make a matrix of 128 bytes that tensor cores read at
// once. Matrices lie 144 bytes apart, or groups of them are padded by 32 bytes, so that a quarter of a warp writes to
// different banks.
inline constexpr std::int32_t kLinearUnits = kLinearStep * kLinearTileN / 8;
inline constexpr std::int32_t kLinearPartBytes = kLinearUnits / 8 * 144;
inline constexpr std::int32_t kLinearStepBytes = 3 * kLinearPartBytes;
inline constexpr std::size_t kLinearSharedBytes = 2 * std::size_t{kLinearStepBytes};

struct LinearShape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t depth;

  [[nodiscard]] constexpr std::int64_t tiles_n() const noexcept { return (n + kLinearTileN - 1) / kLinearTileN; }
  [[nodiscard]] constexpr std::int64_t tiles() const noexcept {
    return (m + kLinearTileM - 1) / kLinearTileM * tiles_n();
  }
  /// Depth of each of `parts` parts, rounded up to whole steps.
  [[nodiscard]] constexpr std::int64_t depth_of_part(std::int64_t parts) const noexcept {
    const std::int64_t steps = (depth + kLinearStep - 1) / kLinearStep;
    return (steps + parts - 1) / parts * kLinearStep;
  }
};

[[nodiscard]] constexpr LinearShape shape_of(const gnn::Linear& problem) noexcept {
  switch (problem.term) {
    case gnn::LinearTerm::product: return {problem.rows, problem.outputs, problem.inputs};
    case gnn::LinearTerm::input_gradient: return {problem.rows, problem.inputs, problem.outputs};
    case gnn::LinearTerm::matrix_gradient: break;
  }
  return {problem.outputs, problem.inputs, problem.rows};
}

}  // namespace rtopk::cuda
