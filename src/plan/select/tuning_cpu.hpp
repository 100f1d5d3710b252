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

/// The longest row by magnitude of which families read a copy without signs. Longer ones are cpu_stream's, which clears signs
/// of a few elements at a time, and looks for no ties. Measured on a Xeon with AVX-512, one thread, us, cpu_best or cpu_row
/// with copies against cpu_stream: f32, k = 1: 65536 columns: 18, 18; 262144: 103, 76; 1048576: 806, 287; k = 262144 of
/// 1048576: 3000, 1850.
inline constexpr std::int64_t kCopiedBytes = std::int64_t{256} << 10;

/// The largest k whose results are put in order by comparing each with each, and for 16-bit elements.
inline constexpr std::int64_t kMaxRanked = 200;
inline constexpr std::int64_t kMaxRankedOf16Bits = 96;

}  // namespace rtopk::cpu
