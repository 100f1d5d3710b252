// The numbers of cuda_cluster, for the plan, for the launch and for the kernel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rtopk::cuda {

inline constexpr int kClusterThreads = 256;  ///< Of a block.
inline constexpr int kClusterWarps = kClusterThreads / 32;
inline constexpr int kClusterMostLogSamples = 2;           ///< Four loads of a thread at a time.
inline constexpr int kClusterMostParts = 8;                ///< Blocks that share a row: what every device allows.
inline constexpr int kClusterBlocksPerMultiprocessor = 4;  ///< For which there are registers.
inline constexpr std::int64_t kClusterMostPartCols = (1 << 19) + 64;  ///< Marks of a part are bits in shared memory.
inline constexpr std::int64_t kClusterMostCols = 0x7fffffff - 64;     ///< Columns are held in 32 bits.

/// The first bar of a row. Every thread number stands for `parts << log_samples` elements, drawn from as many places of the
/// row; the bar is the rank-th greatest of the 256 numbers' greatest elements.
struct ClusterSample {
  std::int32_t log_samples;  ///< Of the elements that a thread draws from its part.
  std::int32_t rank;
  std::int64_t capacity;  ///< Of the lists together: room for what reaches the bar, unless the sample was most unusual.
};

inline ClusterSample cluster_sample(std::int64_t cols, std::int64_t k, std::int64_t parts) {
  // Enough for a narrow list, and few enough, at 32 bytes of traffic each, to be a small part of what a row takes anyway.
  constexpr std::int64_t kLeastSamples = 4;
  constexpr std::int64_t kColsPerSample = 128;
  constexpr double kNumbers = kClusterThreads;
  constexpr std::int64_t kLeastCapacity = 1024;
  ClusterSample sample{};
  const std::int64_t wanted_samples = std::max(kLeastSamples, cols / (kClusterThreads * kColsPerSample));
  while (sample.log_samples < kClusterMostLogSamples && (parts << sample.log_samples) < wanted_samples) {
    ++sample.log_samples;
  }
  const auto samples = static_cast<double>(parts << sample.log_samples);
  // The k best elements of the row lie under so many numbers. If the bar lies below all of those it is reached by k: 3.7
  // deviations, and two for the skewness of small numbers, are exceeded once in ten thousand rows.
  const double share = 1.0 - std::pow(1.0 - static_cast<double>(k) / static_cast<double>(cols), samples);
  const double rank = share * kNumbers + 3.7 * std::sqrt(share * (1.0 - share) * kNumbers) + 2.0;
  sample.rank = static_cast<std::int32_t>(std::min(std::ceil(rank), kNumbers));
  // The other way round: so many numbers would lie at or above the bar if it were the lowest that chance makes it.
  const double most = rank + 7.0 + 3.8 * std::sqrt((rank + 3.5) * std::max(1.0 - rank / kNumbers, 0.0));
  const double reaching =
      static_cast<double>(cols) * (1.0 - std::pow(1.0 - std::min(most, kNumbers - 4.0) / kNumbers, 1.0 / samples));
  const std::int64_t wanted = std::max({kLeastCapacity, k, static_cast<std::int64_t>(reaching)});
  sample.capacity = (std::min(wanted, cols) + 31) / 32 * 32;
  return sample;
}

/// Elements of the longest part of a row, which begins anywhere in a vector of 16 bytes.
constexpr std::int64_t cluster_part_cols(std::int64_t cols, std::int64_t parts, std::int64_t element_bytes) {
  const std::int64_t vector = 16 / element_bytes;
  return (cols / vector + 2 + parts - 1) / parts * vector;
}

template <class T>
struct ClusterShape {
  using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  static constexpr int kLoads = 4;                         ///< Vectors that a thread has at a time.
  static constexpr int kWarpTile = 32 * kLoads;            ///< Vectors that a warp has at a time,
  static constexpr int kTile = kClusterWarps * kWarpTile;  ///< and a block: 16 KiB.
  static constexpr int kTilesAhead = 4;                    ///< How far ahead of the loads the cache is filled.
  static constexpr std::int64_t kStateBytes = 1024;

  static constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }
  static constexpr std::int64_t raws_at() { return kStateBytes; }
  static constexpr std::int64_t columns_at(std::int64_t capacity) {
    return raws_at() + aligned(capacity * static_cast<std::int64_t>(sizeof(T)));
  }
  /// In turn: two sets of keys of the sample, the keys of all lists, marks of columns.
  static constexpr std::int64_t scratch_at(std::int64_t capacity) {
    return columns_at(capacity) + aligned(capacity * 4);
  }
  static constexpr std::int64_t shared_bytes(std::int64_t capacity, std::int64_t part_cols) {
    constexpr auto kKey = static_cast<std::int64_t>(sizeof(Key));
    const std::int64_t marks = 4 * (kClusterThreads + part_cols / 32 + 1);
    return scratch_at(capacity) + aligned(std::max({2 * kClusterThreads * kKey, capacity * kKey, marks}));
  }
};

}  // namespace rtopk::cuda
