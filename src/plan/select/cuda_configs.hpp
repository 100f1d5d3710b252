// The configs of the CUDA families: what each launches for a problem, and the problems that it takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/select.hpp>

#include "plan/select/tuning_block.hpp"

namespace rtopk::cuda {

inline constexpr std::int64_t kMaxGridBlocks = 0x7fffffff;  ///< Of one launch.
inline constexpr std::int64_t kReservedBytes = 1024;        ///< Of each block's shared memory, for the system.
inline constexpr std::int64_t kGeneralRowBytes = 1024;      ///< And for its general row, if there is one.

/// True if all rows begin and end at multiples of 16 bytes, provided that the first does.
[[nodiscard]] bool has_aligned_rows(const Problem& problem) noexcept;

/// Sets the config of a family that can do the problem's search; false if rows are too long for it or k is too large.
/// `wanted`: accept slow configs too.
[[nodiscard]] bool plan_family(const Traits& traits, Family family, bool wanted, Plan& plan) noexcept;

/// True if there is a kernel of cuda_warp or cuda_tournament for the plan's tiles.
[[nodiscard]] bool tiles_are_known(const Plan& plan) noexcept;

/// A block of cuda_block, if `parts` of them share a row. No chunks: there is none.
[[nodiscard]] BlockLayout block_layout(const Problem& problem, std::int64_t parts) noexcept;

/// The shared memory of a block of cuda_cluster.
[[nodiscard]] std::int64_t cluster_shared_bytes(const Problem& problem, std::int64_t parts, int threads) noexcept;

/// The shared memory of a block of cuda_filter, and how many blocks fit on a multiprocessor.
struct FilterLaunch {
  std::size_t shared_bytes = 0;
  std::int64_t blocks_per_multiprocessor = 0;
};

[[nodiscard]] FilterLaunch filter_launch(DType dtype, std::int64_t k, std::int64_t shared_bytes_per_block) noexcept;

}  // namespace rtopk::cuda
