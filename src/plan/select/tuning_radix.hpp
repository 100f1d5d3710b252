// The config of cuda_radix, for the plan and for the launch: how many blocks share a row, and the workspace through
// which they exchange data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "plan/select/tuning_long_rows.hpp"

namespace rtopk::cuda {

/// Threads of a block that has a row to itself (at most and at least), and of a block that shares a row. The fewer rows
/// are worked on at a time, the more of them stay in the cache from one pass to the next.
inline constexpr int kRadixThreadsAlone = 1024;
inline constexpr int kRadixMinThreadsAlone = 128;
inline constexpr int kRadixThreadsShared = 512;

/// A block counts in 32 bits.
inline constexpr std::int64_t kRadixMaxPart = std::int64_t{1} << 30;

/// What the blocks of a row know together, kept between kernels.
struct RadixState {
  std::uint64_t prefix;  ///< The digits found so far, in their places.
  std::int64_t needed;   ///< How many of the elements with this prefix are selected.
  std::int32_t passes;   ///< How many digits were found.
  std::int32_t done;     ///< All elements with this prefix are selected: no further digit is needed.
  std::uint32_t ticket;  ///< Blocks of the row that have finished this pass.
  std::uint32_t unused;
};

/// Elements of one part of a row: those at or above `sure`, and those that compete for the quota. See Threshold in
/// cuda/select/row_writer.cuh.
struct RadixCount {
  std::int64_t sure;
  std::int64_t fill;
};

/// Offsets in the workspace of `rows` rows at a time, with `parts` parts each.
struct RadixLayout {
  std::size_t states;  ///< RadixState [rows]
  std::size_t bins;    ///< std::uint64_t [rows][kBins]
  std::size_t zeroed;  ///< Bytes from the start that are zeroed before the first row.
  std::size_t counts;  ///< RadixCount [rows][parts]
  std::size_t slots;   ///< std::uint32_t [rows][parts][kLastBins]: the histograms of the last pass
  std::size_t bytes;
};

template <int kKeyBytes>
constexpr RadixLayout radix_layout(std::int64_t rows, std::int64_t parts) {
  using Digits = RadixDigits<kKeyBytes>;
  const auto aligned = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
  const auto r = static_cast<std::size_t>(rows);
  const auto p = static_cast<std::size_t>(parts);
  RadixLayout layout{};
  layout.states = 0;
  layout.bins = aligned(r * sizeof(RadixState));
  layout.zeroed = layout.bins + r * Digits::kBins * sizeof(std::uint64_t);
  layout.counts = aligned(layout.zeroed);
  layout.slots = layout.counts + aligned(r * p * sizeof(RadixCount));
  layout.bytes = layout.slots + aligned(r * p * Digits::kLastBins * sizeof(std::uint32_t));
  return layout;
}

/// The config of a plan.
struct RadixLaunch {
  std::int64_t parts;   ///< Blocks that share a row. If 1, a single kernel does all the work without a workspace.
  std::int64_t rows;    ///< Rows at a time, if parts > 1.
  std::int64_t blocks;  ///< rows * parts, or the grid of the single kernel.
  std::int32_t threads;
  std::size_t shared_bytes;
  std::size_t workspace_bytes;
};

/// The config for a given number of parts. `parts` is raised if a part would have too many elements to count.
template <int kKeyBytes>
constexpr RadixLaunch radix_launch(std::int64_t rows, std::int64_t cols, std::int64_t parts,
                                   std::int64_t multiprocessors) {
  using Digits = RadixDigits<kKeyBytes>;
  constexpr std::int64_t kMaxBlocks = 0x7fffffff;
  struct Bytes {
    char bytes[kKeyBytes];
  };
  RadixLaunch config{};
  config.parts = std::max(parts, (cols + kRadixMaxPart - 1) / kRadixMaxPart);
  if (config.parts <= 1) {
    config.parts = 1;
    config.rows = 1;
    const std::int64_t quarter = (cols * kKeyBytes / 16 / 4 + 31) / 32 * 32;  // four vectors for each thread
    config.threads = static_cast<std::int32_t>(
        std::clamp(quarter, std::int64_t{kRadixMinThreadsAlone}, std::int64_t{kRadixThreadsAlone}));
    config.blocks = std::clamp(rows, std::int64_t{1}, kMaxBlocks);
  } else {
    config.threads = kRadixThreadsShared;
    // Enough rows at a time to fill the device several times. This also bounds the workspace.
    config.rows = std::clamp(32 * multiprocessors / config.parts, std::int64_t{1}, std::max(rows, std::int64_t{1}));
    config.blocks = config.rows * config.parts;
    config.workspace_bytes = radix_layout<kKeyBytes>(config.rows, config.parts).bytes;
  }
  config.shared_bytes =
      WriterConfig<Bytes>::shared_bytes(config.threads) + (config.parts == 1 ? Digits::kSharedBytes : 0);
  return config;
}

/// How many blocks should share a row: as many as keep the device busy. 1 if one block reads the row faster than
/// several kernels start.
template <int kKeyBytes>
constexpr std::int64_t radix_parts(std::int64_t rows, std::int64_t cols, std::int64_t multiprocessors) {
  constexpr std::int64_t kMinRowBytes = 256 * 1024;
  constexpr std::int64_t kMinPartBytes = 32 * 1024;
  constexpr std::int64_t kBlocksPerMultiprocessor = 4;
  const std::int64_t row_bytes = cols * kKeyBytes;
  if (rows >= 2 * multiprocessors || row_bytes < kMinRowBytes) return 1;
  // One wave of blocks, or several if one would leave more than a seventh of the device idle.
  std::int64_t parts = 1;
  for (std::int64_t rounds = 1; rounds <= 8; rounds *= 2) {
    const std::int64_t places = rounds * kBlocksPerMultiprocessor * multiprocessors;
    parts = std::max(places / std::max(rows, std::int64_t{1}), std::int64_t{1});
    if (7 * parts * rows >= 6 * places) break;
  }
  return std::clamp(parts, std::int64_t{1}, row_bytes / kMinPartBytes);
}

}  // namespace rtopk::cuda
