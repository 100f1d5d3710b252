// The config of the sort by value, for the plan and for the launch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/sizes.hpp"

namespace rtopk::cuda {

/// An entry to sort is one word of key and index if both fit in 64 bits, else two words. A thread has `kItems` entries.
template <int kKeyBytes, bool kWide>
struct SortConfig {
  static constexpr int kEntryBytes = kWide ? 16 : 8;
  static constexpr int kItems = kWide ? 4 : 8;
  static constexpr int kMaxThreads = 1024;  ///< Of a block that sorts a whole row.
  static constexpr int kTileThreads = 512;  ///< Of a block that sorts or merges one tile of a longer row.
  static constexpr int kTile = kTileThreads * kItems;
  static constexpr std::int64_t kMaxAtOnce = std::int64_t{kMaxThreads} * kItems;
  /// One entry in kItems + 1 stays free, so that threads that read neighbouring items do not conflict in a bank.
  static constexpr std::size_t shared_bytes(int threads) {
    return static_cast<std::size_t>(threads) * (kItems + 1) * kEntryBytes;
  }
};

/// True if key and index do not fit in one word.
template <int kKeyBytes>
constexpr bool sort_is_wide(std::int64_t cols) {
  if (kKeyBytes == 2) return cols > std::int64_t{1} << 48;
  return kKeyBytes == 8 || cols > std::int64_t{1} << 32;
}

/// Config of the sort by digits: a block sorts the results of a row in shared memory. For keys of up to 4 bytes.
template <int kKeyBytes>
struct DigitSortConfig {
  static constexpr int kMaxBits = 8;  ///< Of a digit.
  static constexpr int kMaxThreads = 1024;
  static constexpr std::int64_t kMaxItems = 65535;  ///< Places and ranks have 16 bits.
  static constexpr int kTile = 8192;                ///< Of a longer row. A multiple of the tiles that are merged.

  static constexpr int kCounters = (1 << kMaxBits) * 32;  ///< Of each digit, for up to 32 warps.
  static constexpr std::size_t kCounterBytes = (kCounters + 32) * sizeof(std::uint32_t);  ///< With a sum for each warp.
  static constexpr std::int64_t capacity(std::int64_t items) { return (items + 7) / 8 * 8; }
  /// A key and the place that it had before.
  static constexpr std::size_t buffer_bytes(std::int64_t items) {
    return static_cast<std::size_t>(capacity(items)) * (kKeyBytes + sizeof(std::uint16_t));
  }
  /// A pass reads one buffer and writes the other. Each item has a rank.
  static constexpr std::size_t shared_bytes(std::int64_t items) {
    return kCounterBytes + 2 * buffer_bytes(items) + static_cast<std::size_t>(capacity(items)) * sizeof(std::uint16_t);
  }
  static constexpr std::int32_t threads(std::int64_t items) { return items <= 4096 ? 512 : kMaxThreads; }
};

/// Config of the sort in registers: a warp sorts the results of a row. C results for each lane.
struct WarpSortConfig {
  static constexpr int kWarps = 4;  ///< Of a block.
  static constexpr std::int64_t kMaxItems = 512;
  static constexpr int kMinBlocks = 8;  ///< Allows 64 registers.
  static constexpr int items_per_lane(std::int64_t k) { return k <= 256 ? 8 : 16; }
  /// Of each result: value, index, place.
  static constexpr std::size_t warp_bytes(int items_per_lane, std::size_t element_bytes) {
    return std::size_t{32} * static_cast<std::size_t>(items_per_lane) * (element_bytes + 4 + 2);
  }
};

/// Config of the sort in the registers of a block, which has one row.
struct BlockSortConfig {
  static constexpr int kItems = 4;  ///< Results of a thread.
  static constexpr std::int64_t kMaxItems = 4096;
  /// A warp for each row is faster if there are more rows than this, and if it has room for the results. Measured,
  /// microseconds, f32: 1 row, k 512: 16.5, a block 10.2; 1024 rows: 19, 14; 4096 rows: 28, 32; k 1024: 85, 71.
  static constexpr std::int64_t kFewRows = 1024;
  static constexpr int warps(std::int64_t k) { return k <= 512 ? 4 : k <= 1024 ? 8 : k <= 2048 ? 16 : 32; }
  /// Of each result: two words, value, index, place. And the least and the greatest key of each warp.
  static constexpr std::size_t shared_bytes(int warps, std::size_t element_bytes) {
    return static_cast<std::size_t>(warps) * (std::size_t{32} * kItems * (8 + element_bytes + 4 + 2) + 16) + 64;
  }
};

/// Config of the sort of general rows with more results than a block sorts in registers.
struct MergeSortConfig {
  static constexpr int kThreads = 512;
  static constexpr std::int64_t kMaxBlocks = 528;  ///< Some for each multiprocessor.
  static constexpr std::size_t kResultBytes = 16;  ///< Or less.
  static constexpr std::int64_t blocks(std::int64_t rows) { return std::clamp(rows, std::int64_t{1}, kMaxBlocks); }
  /// Of the workspace: two buffers for each block. A merge reads one and writes the other.
  static constexpr std::size_t bytes(std::int64_t rows, std::int64_t k) {
    if (k <= BlockSortConfig::kMaxItems) return 0;
    return core::times(core::bytes_of(2 * blocks(rows), kResultBytes), static_cast<std::size_t>(k));
  }
};

struct SortLaunch {
  bool wide;
  std::int64_t tiles;  ///< Of a row. If 1, a block sorts the whole row.
  std::int64_t rows;   ///< At a time, if tiles > 1.
  std::int32_t threads;
  std::size_t shared_bytes;
  std::size_t buffer_bytes;     ///< Of one of the two buffers; a merge reads one and writes the other.
  std::size_t workspace_bytes;  ///< 0 if tiles is 1.
};

template <int kKeyBytes, bool kWide>
constexpr SortLaunch sort_launch_of(std::int64_t rows, std::int64_t k) {
  using Config = SortConfig<kKeyBytes, kWide>;
  constexpr std::int64_t kEntriesAtOnce = std::int64_t{1} << 22;
  SortLaunch config{};
  config.wide = kWide;
  if (k <= Config::kMaxAtOnce) {
    config.tiles = 1;
    config.rows = rows;
    config.threads = static_cast<std::int32_t>(((k + Config::kItems - 1) / Config::kItems + 31) / 32 * 32);
  } else {
    config.tiles = (k + Config::kTile - 1) / Config::kTile;
    config.rows = std::clamp(kEntriesAtOnce / k, std::int64_t{1}, std::max(rows, std::int64_t{1}));
    config.threads = Config::kTileThreads;
    config.buffer_bytes = core::round_up(core::bytes_of(config.rows * k, Config::kEntryBytes), 256);
    config.workspace_bytes = core::times(2, config.buffer_bytes);
  }
  config.shared_bytes = Config::shared_bytes(config.threads);
  return config;
}

/// The config of a sort of the k results of each of `rows` rows of `cols` elements.
template <int kKeyBytes>
constexpr SortLaunch sort_launch(std::int64_t rows, std::int64_t cols, std::int64_t k) {
  return sort_is_wide<kKeyBytes>(cols) ? sort_launch_of<kKeyBytes, true>(rows, k)
                                       : sort_launch_of<kKeyBytes, false>(rows, k);
}

}  // namespace rtopk::cuda
