// What a run keeps in the caller's workspace, part after part, each aligned to 256 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/select.hpp>

namespace rtopk::cuda {

struct WorkspaceLayout {
  std::size_t rows = 0;     ///< Where the rows of a chunk begin, if they are gathered.
  std::size_t family = 0;   ///< The family's own part; all that a chunk's plan needs begins here.
  std::size_t indices = 0;  ///< Indices that only the sort by value needs.
  std::size_t sort = 0;
  std::size_t bytes = 0;  ///< With room to align a base of any address.
};

/// Whether what the family writes must still be put in order by value.
[[nodiscard]] bool sorts_afterwards(const Plan& plan) noexcept;

/// For a plan whose family and numbers are set. More than core::kMaxBytes where the sum of the parts is no size.
[[nodiscard]] WorkspaceLayout workspace_of(const Plan& plan) noexcept;

/// The largest k that cuda_warp puts in order by itself.
[[nodiscard]] std::int64_t max_sorted_by_warp(DType dtype, std::int32_t lanes_per_row) noexcept;

}  // namespace rtopk::cuda
