// The config of cuda_cluster, for the plan, the launch and the kernel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rtopk::cuda {

inline constexpr int kClusterThreads = 256;  ///< Of a block.
inline constexpr int kClusterWarps = kClusterThreads / 32;
inline constexpr int kClusterMaxLogDraws = 6;
inline constexpr int kClusterMaxParts = 8;                 ///< Blocks that share a row. Every device allows this many.
inline constexpr int kClusterBlocksPerMultiprocessor = 4;  ///< As many as registers allow.
inline constexpr std::int64_t kClusterMaxPartCols = (1 << 19) + 64;  ///< Marks of a part are bits in shared memory.
inline constexpr std::int64_t kClusterMaxCols = 0x7fffffff - 64;     ///< Columns are held in 32 bits.

/// How the first filter threshold of a row is sampled. Every thread draws at some places of the row, one element or a
/// few neighbours at each place. The filter threshold is the rank-th largest of the 256 threads' largest elements.
struct ClusterSample {
  std::int32_t log_draws;   ///< log2 of the places that a thread draws from.
  std::int32_t neighbours;  ///< Elements at a place.
  std::int32_t rank;
  std::int64_t capacity;  ///< Of all lists of a row together. Too small only if the sample was very unusual.
};

inline ClusterSample cluster_sample(std::int64_t cols, std::int64_t k, std::int64_t element_bytes) {
  // Enough draws for few candidates. Each costs 32 bytes of traffic: few enough draws to be a small part of the traffic
  // of the row. More if more is selected, but not so many that nearly every thread draws one of the k largest.
  constexpr std::int64_t kMinDraws = 4;
  constexpr std::int64_t kColsPerDraw = 256;
  constexpr double kNumbers = kClusterThreads;
  constexpr std::int64_t kMinCapacity = 1280;
  constexpr std::int64_t kMaxCapacityOfNeighbours = 6144;
  ClusterSample sample{};
  const std::int64_t wanted_draws =
      std::max({kMinDraws, cols / (kClusterThreads * kColsPerDraw), std::min(k / 256, cols / (2 * k))});
  while (sample.log_draws < kClusterMaxLogDraws && (1 << sample.log_draws) < wanted_draws) ++sample.log_draws;
  const auto draws = static_cast<double>(1 << sample.log_draws);
  // Neighbours are free and leave fewer candidates if they differ from each other. If they do not, they are worth one
  // element, and the list must have room for all that then reaches the filter threshold. If k is large that takes too
  // much room.
  for (const std::int64_t neighbours : {element_bytes == 8 ? 2 : 4, 1}) {
    // `share * kNumbers` threads are expected to draw one of the k largest elements of the row. If the filter threshold
    // lies below all of these draws, k elements reach it. The margin of 4.7 standard deviations, and 3 more for the
    // skewness of small counts, is exceeded in one row in a million. The margin is wide because all other rows wait for
    // a row that is read again.
    const double part = std::min(static_cast<double>(k * neighbours) / static_cast<double>(cols), 1.0);
    const double share = 1.0 - std::pow(1.0 - part, draws);
    const double rank = share * kNumbers + 4.7 * std::sqrt(share * (1.0 - share) * kNumbers) + 3.0;
    // The other direction: how many elements reach the filter threshold if it is unusually low.
    const auto reaching = [&](double deviations, double samples) {
      const double most =
          rank + 2.0 * deviations + deviations * std::sqrt((rank + deviations) * std::max(1.0 - rank / kNumbers, 0.0));
      return static_cast<double>(cols) *
             (1.0 - std::pow(1.0 - std::min(most, kNumbers - 4.0) / kNumbers, 1.0 / samples));
    };
    const double most = neighbours == 1 ? reaching(3.8, draws)
                                        : std::max(reaching(3.8, draws * static_cast<double>(neighbours)),
                                                   reaching(2.5, draws));  // if neighbours are equal
    const std::int64_t wanted = std::max({kMinCapacity, k, static_cast<std::int64_t>(most)});
    sample.neighbours = static_cast<std::int32_t>(neighbours);
    sample.rank = static_cast<std::int32_t>(std::min(std::ceil(rank), kNumbers));
    sample.capacity = (std::min(wanted, cols) + 31) / 32 * 32;
    if (wanted <= kMaxCapacityOfNeighbours) break;
  }
  return sample;
}

/// Elements of the longest part of a row. A part may begin anywhere in a vector of 16 bytes.
constexpr std::int64_t cluster_part_cols(std::int64_t cols, std::int64_t parts, std::int64_t element_bytes) {
  const std::int64_t vector = 16 / element_bytes;
  return (cols / vector + 2 + parts - 1) / parts * vector;
}

template <class T>
struct ClusterConfig {
  using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  // A part is copied to shared memory in tiles, ahead of its use.
  static constexpr int kLoads = 2;                        ///< Vectors of a thread in a tile.
  static constexpr int kTile = kClusterThreads * kLoads;  ///< Vectors: 8 KiB.
  static constexpr int kTiles = 4;  ///< Three are being copied while one is searched. Measured: 6 and 8 are slower.
  static constexpr int kLineBytes = kClusterThreads * 16;  ///< One vector of each thread.
  static constexpr int kTileBytes = kTile * 16;
  static constexpr int kBins = 256;   ///< Of the search for the kth value,
  static constexpr int kBinSets = 3;  ///< which has three sets of them.
  static constexpr std::int64_t kStateBytes = 512 + kClusterThreads * static_cast<std::int64_t>(sizeof(Key));

  static constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }
  static constexpr std::int64_t raws_at() { return kStateBytes; }
  static constexpr std::int64_t columns_at(std::int64_t capacity) {
    return raws_at() + aligned(capacity * static_cast<std::int64_t>(sizeof(T)));
  }
  /// First the tiles. After the part has been read the same memory holds the bins, the keys of all lists and the marks
  /// of columns.
  static constexpr std::int64_t tiles_at(std::int64_t capacity) { return columns_at(capacity) + aligned(capacity * 4); }
  static constexpr std::int64_t keys_at(std::int64_t capacity) { return tiles_at(capacity) + kBinSets * kBins * 4; }
  static constexpr std::int64_t marks_at(std::int64_t capacity) {
    return keys_at(capacity) + aligned(capacity * static_cast<std::int64_t>(sizeof(Key)));
  }
  static constexpr std::int64_t shared_bytes(std::int64_t capacity, std::int64_t part_cols) {
    const std::int64_t marks = 4 * (kClusterThreads + part_cols / 32 + 1);
    return std::max(tiles_at(capacity) + kTiles * kTileBytes, marks_at(capacity) + aligned(marks));
  }
};

}  // namespace rtopk::cuda
