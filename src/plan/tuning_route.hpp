// Config of the routing kernel, for host and kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/moe/route.hpp>

namespace rtopk::cuda {

/// Threads of a block. Four warps, each with a row: 128 rows, a batch of a server, still reach 32 multiprocessors.
inline constexpr std::int32_t kRouteThreads = 128;
inline constexpr std::int32_t kRouteWarps = kRouteThreads / 32;

/// Rows that share the lanes of a warp for their exact scores, sums and results: as many as have a lane for each route.
inline constexpr std::int64_t kMaxRowsAtOnce = 4;

/// Up to this many experts, without groups, a lane has a row of its own.
inline constexpr std::int64_t kMaxFewExperts = 16;
inline constexpr std::int64_t kRowsOfLanes = 32;  ///< RoutePlan::rows_per_worker then.

// Many rows of more experts have a lane each, too, and come through shared memory: see lane.cuh.
inline constexpr std::int64_t kMaxLaneRoutes = 8;
inline constexpr std::int64_t kMaxLaneExperts = 512;
inline constexpr std::int64_t kMaxLaneSoftmaxExperts = 128;  ///< As many as the sum of powers has parts.
inline constexpr std::int64_t kMaxLaneGroups = 4;            ///< That stay.
inline constexpr std::int64_t kLanePart = 32;                ///< Experts that are ranked before others are looked at.
/// Blocks on a multiprocessor at a time, if registers and shared memory allow it: 65,536 rows on an H200 are then
/// routed in one wave.
inline constexpr std::int32_t kLaneBlocks = 4;
/// From so many rows for each multiprocessor on: fewer leave too many lanes without one.
inline constexpr std::int64_t kMinLaneRowsPerMultiprocessor = 96;

// Or eight lanes, four rows at a time: see octet.cuh.
/// RoutePlan::rows_per_worker then: four, and then four more. Every block reads the bias first, which takes a warp a
/// third of the instructions of four rows.
inline constexpr std::int64_t kFewRowsOfOctets = 8;
inline constexpr std::int64_t kManyRowsOfOctets = 16;
[[nodiscard]] constexpr bool are_rows_of_octets(std::int64_t rows_per_worker) noexcept {
  return rows_per_worker == kFewRowsOfOctets || rows_per_worker == kManyRowsOfOctets;
}
inline constexpr int kOctetLanes = 8;
inline constexpr int kOctetRowsAtOnce = 32 / kOctetLanes;
inline constexpr int kOctetPart = 16;  ///< Experts of a lane that are ranked before others are looked at.
inline constexpr int kMaxOctetExpertsOfLane = 64;
static_assert(std::int64_t{kOctetLanes} * kMaxOctetExpertsOfLane == kMaxLaneExperts);
/// Blocks on a multiprocessor at a time, if shared memory allows it.
inline constexpr std::int32_t kOctetBlocks = 8;

/// What is copied of a row at a time: a line of the cache. In shared memory rows are 16 bytes further apart, so that
/// lanes that load 16 bytes of theirs use all banks.
inline constexpr std::int64_t kLanePieceBytes = 128;
inline constexpr std::int64_t kLaneRowBytes = kLanePieceBytes + 16;
inline constexpr std::int64_t kLaneStageBytes = 32 * kLaneRowBytes;
inline constexpr int kLaneStages = 2;  ///< Pieces in shared memory: one is read while the other is on its way.
/// A list of keys in each lane, for a group that stays.
inline constexpr std::int64_t kLaneListBytes = 32 * kMaxLaneRoutes * 4;

/// Experts that each lane of a warp has in registers.
[[nodiscard]] constexpr std::int64_t route_experts_per_lane(std::int64_t experts) noexcept {
  return experts <= 128 ? 4 : experts <= 256 ? 8 : experts <= 384 ? 12 : experts <= 512 ? 16 : 32;
}

/// Those of a lane that are neighbours.
[[nodiscard]] constexpr std::int64_t route_experts_per_part(moe::Score score, std::int64_t per_lane) noexcept {
  return score == moe::Score::softmax ? 4 : per_lane;
}

/// Those that a lane loads at once: 16 bytes of neighbours, or four of them.
[[nodiscard]] constexpr std::int64_t route_experts_per_load(std::size_t element_bytes, std::int64_t per_part) noexcept {
  return element_bytes == 2 && per_part % 8 == 0 ? 8 : 4;
}

/// Blocks on a multiprocessor at a time, as many as registers allow: a row is a long chain of short steps, and other
/// warps fill the gaps.
[[nodiscard]] constexpr std::int32_t route_blocks(moe::Score score, std::int64_t experts_per_lane) noexcept {
  const bool softmax = score == moe::Score::softmax;
  if (experts_per_lane <= 4) return softmax ? 8 : 9;
  if (experts_per_lane <= 8) return softmax ? 6 : 8;
  if (experts_per_lane <= 16) return softmax ? 4 : 5;
  return softmax ? 2 : 3;
}

/// Words of shared memory of a warp: two for each of 32 routes; and a key for every expert and every group, for rows
/// that are routed exactly.
inline constexpr std::int64_t kRoutePlaceWords = 64;
[[nodiscard]] constexpr std::int64_t route_words_per_warp(const moe::Route& problem) noexcept {
  return kRoutePlaceWords + problem.experts + problem.groups;
}

/// Experts as lanes have them, in whole pieces of any type.
[[nodiscard]] constexpr std::int64_t lane_experts(std::int64_t experts) noexcept { return (experts + 63) / 64 * 64; }

/// Bytes of shared memory, if lanes have the rows of many experts: of a warp, and of a block with a term for each
/// expert. A row that is routed exactly takes the place of the pieces.
[[nodiscard]] constexpr std::int64_t lane_bytes_per_warp(std::int64_t groups) noexcept {
  return kLaneStages * kLaneStageBytes + (groups > 1 ? kMaxLaneGroups * kLaneListBytes : 0);
}
[[nodiscard]] constexpr std::int64_t lane_bytes_per_block(const moe::Route& problem) noexcept {
  return lane_experts(problem.experts) * 4 + kRouteWarps * lane_bytes_per_warp(problem.groups);
}
[[nodiscard]] constexpr std::int64_t octet_bytes_per_block(const moe::Route& problem) noexcept {
  return problem.experts * (4 + static_cast<std::int64_t>(size_of(problem.dtype)) * kRouteWarps * kOctetRowsAtOnce);
}
static_assert(kLaneStages * kLaneStageBytes >= 2 * kMaxLaneExperts * 4);

}  // namespace rtopk::cuda
