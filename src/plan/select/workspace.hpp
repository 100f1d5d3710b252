// The layout of the caller's workspace: parts one after the other, each aligned to 256 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/select.hpp>

namespace rtopk::cuda {

struct WorkspaceLayout {
  std::size_t rows = 0;     ///< Gathered rows of a chunk, if rows are gathered.
  std::size_t family = 0;   ///< The family's own part. A chunk's plan uses only what begins here.
  std::size_t indices = 0;  ///< Indices that the caller does not want: see needs_indices.
  std::size_t sort = 0;
  std::size_t bytes = 0;  ///< Includes room to align a base of any address.
};

/// True if the family's results must still be sorted by value.
[[nodiscard]] bool sorts_afterwards(const Plan& plan) noexcept;

/// True if indices must be written somewhere, even if the caller does not want them: for the sort, and for kernels that
/// finish general rows.
[[nodiscard]] bool needs_indices(const Plan& plan) noexcept;

/// For a plan whose family and config are set. More than core::kMaxBytes if the sum of the parts overflows.
[[nodiscard]] WorkspaceLayout workspace_of(const Plan& plan) noexcept;

/// The largest k that cuda_warp sorts by itself.
[[nodiscard]] std::int64_t max_sorted_by_warp(DType dtype, std::int32_t lanes_per_row) noexcept;

}  // namespace rtopk::cuda
