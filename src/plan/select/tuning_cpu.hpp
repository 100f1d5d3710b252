// Limits of the CPU families, for plans and kernels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rtopk::cpu {

/// Elements of a row that are marked and listed at a time, by 16-bit positions.
inline constexpr std::size_t kListedAtOnce = 4096;

/// The longest row of cpu_lanes: it counts columns in bytes.
inline constexpr std::int64_t kMaxLanesColumns = 256;

/// The largest k of cpu_best: the groups whose best elements it compares are 16 and more.
inline constexpr std::int64_t kMaxBest = 8;

/// The largest k whose results are put in order by comparing each with each, and for 16-bit elements.
inline constexpr std::int64_t kMaxRanked = 200;
inline constexpr std::int64_t kMaxRankedOf16Bits = 96;

}  // namespace rtopk::cpu
