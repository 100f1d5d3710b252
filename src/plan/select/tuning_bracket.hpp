// The config of cuda_radix's kernel that reads a row twice, for the plan, the launch and the kernel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <rtopk/select.hpp>

#include "core/sizes.hpp"
#include "plan/select/tuning_long_rows.hpp"

namespace rtopk::cuda {

/// Threads of a block. With the fewer threads and 72 registers each, two blocks fit on a multiprocessor: one waits for
/// memory while the other searches. The more threads where shared memory has room for one block alone.
inline constexpr int kBracketThreads = 448;
inline constexpr int kBracketMoreThreads = 896;
inline constexpr int kBracketMinThreads = 96;  ///< A warp for each rank that is looked for in the sample.

inline constexpr std::int64_t kBracketStaticBytes = 1024;  ///< Of shared memory, beside the dynamic: at most.

/// True if a launch can have this many threads and rows. A plan may have been changed.
inline bool takes_bracket(const Plan& plan) {
  constexpr std::int64_t kMaxBlocks = 0x7fffffff;
  return plan.threads >= kBracketMinThreads && plan.threads <= kBracketMoreThreads && plan.problem.rows >= 1 &&
         plan.problem.rows <= kMaxBlocks;
}

/// Elements of the sample: as many as one warp has registers for.
template <int kBytes>
inline constexpr int kBracketSample = kBytes == 8 ? 512 : 1024;

/// A row in the shared memory of a block: state, list of the elements in the bracket, counts of the row's stretches.
struct BracketLayout {
  std::int32_t better_rank;  ///< Of the sample's key that ends the bracket; 1 is the best. Below 1: no end there.
  std::int32_t worse_rank;   ///< Likewise at the other end. Beyond the sample: no end there.
  std::int32_t capacity;     ///< Of the list. 0: the row is too short or too long.
  std::int32_t stretches;    ///< Of the row; a warp reads one at a time.
  std::int32_t kept;         ///< Stretches that stay in shared memory, the first ones.
  std::int64_t stretches_at;
  std::int64_t kept_at;
  std::int64_t shared_bytes;  ///< At least.
};

template <int kBytes>
struct BracketConfig {
  static constexpr int kVector = 16 / kBytes;
  static constexpr int kLoads = 4;                        ///< Vectors of a lane.
  static constexpr int kStretch = 32 * kLoads * kVector;  ///< Elements.
  static constexpr int kStateBytes = kBytes == 8 ? 7168 : 6144;
  static constexpr int kCountBytes = 12;  ///< Of a stretch.

  static constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

  /// `room`: shared memory that there is. What is left of it keeps a part of the row for the second read.
  static BracketLayout layout(std::int64_t cols, std::int64_t k, int threads, std::int64_t room = 0) {
    // The kth value lies outside of the bracket in one row of two thousand, which is then searched digit by digit.
    constexpr double kDeviations = 3.5;
    // Of the number of elements in the bracket. A list that is too short costs as much.
    constexpr double kRoomDeviations = 3;
    constexpr std::int64_t kMaxCols = std::int64_t{1} << 30;
    constexpr double kSample = kBracketSample<kBytes>;
    BracketLayout layout{};
    if (cols < kBracketSample<kBytes> || cols > kMaxCols) return layout;
    const double share = static_cast<double>(k) / static_cast<double>(cols);
    const double rank = share * kSample;
    const double margin = kDeviations * std::sqrt(rank * (1 - share)) + 1;
    layout.better_rank = static_cast<std::int32_t>(std::floor(rank - margin));
    layout.worse_rank = static_cast<std::int32_t>(std::ceil(rank + margin));
    const double ranks = std::min<double>(layout.worse_rank, kSample) - std::max<double>(layout.better_rank, 0);
    const double most = (ranks + kRoomDeviations * std::sqrt(ranks) + 2) / kSample * static_cast<double>(cols) + 32;
    layout.capacity = static_cast<std::int32_t>(std::min(most, static_cast<double>(cols)));
    // One for the elements before the first whole vector, and one for those behind the last.
    layout.stretches = static_cast<std::int32_t>(core::ceil_div(cols, std::int64_t{kStretch}) + 2);
    // The same memory holds the sample, the bins of the search by digits, and the lists of a RowWriter.
    struct Element {
      char bytes[kBytes];
    };
    const std::int64_t others = std::max({std::int64_t{kBytes == 8 ? 8 : 4} * kBracketSample<kBytes>,
                                          static_cast<std::int64_t>(RadixDigits<kBytes>::kSharedBytes),
                                          static_cast<std::int64_t>(WriterConfig<Element>::shared_bytes(threads))});
    layout.stretches_at = kStateBytes + aligned(std::max(std::int64_t{layout.capacity} * kBytes, others));
    layout.kept_at = layout.stretches_at + aligned(std::int64_t{kCountBytes} * (layout.stretches + 1));
    layout.shared_bytes = layout.kept_at;
    layout.kept = static_cast<std::int32_t>(std::clamp((room - layout.kept_at) / (std::int64_t{kStretch} * kBytes),
                                                       std::int64_t{0}, std::int64_t{layout.stretches}));
    return layout;
  }
};

}  // namespace rtopk::cuda
