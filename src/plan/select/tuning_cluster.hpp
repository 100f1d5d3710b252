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
inline constexpr int kClusterMaxLogDraws = 6;
inline constexpr int kClusterMaxParts = 8;                 ///< Blocks that share a row: what every device allows.
inline constexpr int kClusterBlocksPerMultiprocessor = 4;  ///< For which there are registers.
inline constexpr std::int64_t kClusterMaxPartCols = (1 << 19) + 64;  ///< Marks of a part are bits in shared memory.
inline constexpr std::int64_t kClusterMaxCols = 0x7fffffff - 64;     ///< Columns are held in 32 bits.

/// The first bar of a row. Every thread draws at some places of the row, from each of them one element or a few neighbours; the
/// bar is the rank-th greatest of the 256 threads' greatest elements.
struct ClusterSample {
  std::int32_t log_draws;   ///< Of the places that a thread draws from.
  std::int32_t neighbours;  ///< Elements at a place.
  std::int32_t rank;
  std::int64_t capacity;  ///< Of the lists together: room for what reaches the bar, unless the sample was most unusual.
};

inline ClusterSample cluster_sample(std::int64_t cols, std::int64_t k, std::int64_t element_bytes) {
  // Enough for a narrow list, and few enough, at 32 bytes of traffic each, to be a small part of what a row takes anyway. More
  // where more is selected, but not so many that nearly every number has one of the k best.
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
  // Neighbours cost nothing and make the list narrower, if they differ. If they do not they are as one element, and the list
  // must have room for what then reaches the bar: not where much is selected.
  for (const std::int64_t neighbours : {element_bytes == 8 ? 2 : 4, 1}) {
    // The k best elements of the row lie under so many numbers. If the bar lies below all of those it is reached by k: 4.7
    // deviations, and three for the skewness of small numbers, are exceeded once in a million rows. A row that is read again is
    // waited for by all others.
    const double part = std::min(static_cast<double>(k * neighbours) / static_cast<double>(cols), 1.0);
    const double share = 1.0 - std::pow(1.0 - part, draws);
    const double rank = share * kNumbers + 4.7 * std::sqrt(share * (1.0 - share) * kNumbers) + 3.0;
    // The other way round: so many numbers would lie at or above the bar if it were the lowest that chance makes it.
    const auto reaching = [&](double deviations, double samples) {
      const double most =
          rank + 2.0 * deviations + deviations * std::sqrt((rank + deviations) * std::max(1.0 - rank / kNumbers, 0.0));
      return static_cast<double>(cols) *
             (1.0 - std::pow(1.0 - std::min(most, kNumbers - 4.0) / kNumbers, 1.0 / samples));
    };
    const double most = neighbours == 1 ? reaching(3.8, draws)
                                        : std::max(reaching(3.8, draws * static_cast<double>(neighbours)),
                                                   reaching(2.5, draws));  // of equal neighbours
    const std::int64_t wanted = std::max({kMinCapacity, k, static_cast<std::int64_t>(most)});
    sample.neighbours = static_cast<std::int32_t>(neighbours);
    sample.rank = static_cast<std::int32_t>(std::min(std::ceil(rank), kNumbers));
    sample.capacity = (std::min(wanted, cols) + 31) / 32 * 32;
    if (wanted <= kMaxCapacityOfNeighbours) break;
  }
  return sample;
}

/// Elements of the longest part of a row, which begins anywhere in a vector of 16 bytes.
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
  static constexpr int kTiles = 4;  ///< Three are on their way while one is looked at. Measured: 6 and 8 are slower.
  static constexpr int kLineBytes = kClusterThreads * 16;  ///< One vector of each thread.
  static constexpr int kTileBytes = kTile * 16;
  static constexpr int kBins = 256;   ///< Of the search for the border,
  static constexpr int kBinSets = 3;  ///< which has three sets of them.
  static constexpr std::int64_t kStateBytes = 512 + kClusterThreads * static_cast<std::int64_t>(sizeof(Key));

  static constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }
  static constexpr std::int64_t raws_at() { return kStateBytes; }
  static constexpr std::int64_t columns_at(std::int64_t capacity) {
    return raws_at() + aligned(capacity * static_cast<std::int64_t>(sizeof(T)));
  }
  /// The tiles; and once the part has been read what its result takes: bins, the keys of all lists, marks of columns.
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
