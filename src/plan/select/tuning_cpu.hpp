// Limits of the CPU families that both plans and kernels know.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rtopk::cpu {

/// Elements of a row that are marked and listed at once, by 16-bit positions.
inline constexpr std::size_t kListedAtOnce = 4096;

/// Columns that cpu_lanes can have, since it counts them in bytes.
inline constexpr std::int64_t kMaxLanesColumns = 256;

}  // namespace rtopk::cpu
