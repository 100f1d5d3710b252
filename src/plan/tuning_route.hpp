// Config of the routing kernel, for host and kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/moe/route.hpp>

namespace rtopk::cuda {

/// Threads of a block. Four warps, each with a row: 128 rows, a batch of a server, still reach 32 multiprocessors.
inline constexpr std::int32_t kRouteThreads = 128;
inline constexpr std::int32_t kRouteWarps = kRouteThreads / 32;

/// Two rows share the lanes of a warp at the end of their ways, if a half has a lane for each route.
inline constexpr std::int64_t kMaxPairedRoutes = 16;

/// Experts that each lane of a warp has in registers. They come in fours, 128 of a warp side by side.
[[nodiscard]] constexpr std::int64_t route_experts_per_lane(std::int64_t experts) noexcept {
  return experts <= 128 ? 4 : experts <= 256 ? 8 : experts <= 512 ? 16 : 32;
}

/// Blocks on a multiprocessor at a time, as many as registers allow: a row is a long chain of short steps, and other
/// warps fill the gaps. A plan launches no more: a warp goes on with further rows.
[[nodiscard]] constexpr std::int32_t route_blocks(std::int64_t experts_per_lane) noexcept {
  return experts_per_lane <= 4 ? 10 : experts_per_lane <= 8 ? 9 : experts_per_lane <= 16 ? 8 : 4;
}

/// Words of shared memory of a warp: a key for every expert and every group, for rows that are routed exactly, and 32
/// places for candidates with their scores.
[[nodiscard]] constexpr std::int64_t route_words_per_warp(const moe::Route& problem) noexcept {
  return problem.experts + problem.groups + 64;
}

}  // namespace rtopk::cuda
