// The config of cuda_cluster, for the plan, the launch and the kernel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/attributes.hpp"
#include "plan/select/tuning_parts.hpp"

namespace rtopk::cuda {

inline constexpr int kClusterThreads = 256;
inline constexpr int kClusterMoreThreads = 512;         ///< For long parts, of which few fit on a multiprocessor.
inline constexpr int kClusterNumbers = 256;             ///< Of the sample of a row.
inline constexpr std::int64_t kClusterManyRows = 2048;  ///< Above: several times as many as run at a time.
inline constexpr int kClusterMinRoom = 1024;  ///< Of a list that was pruned: more than a warp lists at a time.
inline constexpr std::int64_t kClusterMaxPartCols = (1 << 19) + 64;  ///< Marks of a part are bits in shared memory.
inline constexpr std::int64_t kClusterMaxCols = 0x7fffffff - 64;     ///< Columns are held in 32 bits.

/// How the first filter threshold of a row is sampled: from 256 groups of vectors of 16 bytes, each at its place. The
/// filter threshold is the rank-th largest of the groups' largest elements.
struct ClusterSample {
  std::int32_t log_draws;  ///< log2 of the vectors of a group.
  std::int32_t rank;
  std::int32_t rank_if_alike;  ///< If the elements of a vector are alike.
};

/// The margin of a sample's rank, in standard deviations. A row is read again if fewer than k of its elements reach the
/// threshold. Of few rows all others wait for such a row: one in a million. Of many rows others run meanwhile, except for
/// some 500 at the end: one in five thousand, for an eighth fewer candidates. With 2.75 deviations, one row in seven
/// hundred, every second matrix would have one at its end.
constexpr double cluster_margin(std::int64_t rows) { return rows > kClusterManyRows ? 3.5 : 4.7; }

/// `margin`: see cluster_margin. `Real`: what it is computed in.
template <class Real = double>
RTOPK_HD ClusterSample cluster_sample(std::int64_t cols, std::int64_t k, std::int64_t element_bytes, Real margin) {
  // Memory is slow at places that are far from each other: as few of them as leave few enough candidates.
  constexpr std::int64_t kColsPerDraw = 512;
  constexpr int kMaxLogDraws = 6;
  constexpr Real kNumbers = kClusterNumbers;
  ClusterSample sample{};
  while (sample.log_draws < kMaxLogDraws && kClusterNumbers * kColsPerDraw << sample.log_draws < cols) {
    ++sample.log_draws;
  }
  // `share * kNumbers` groups are expected to hold one of the k largest elements of the row. If the filter threshold
  // lies below all of these, k elements reach it.
  const Real part = std::min(static_cast<Real>(k) / static_cast<Real>(cols), Real(1));
  const auto rank_of = [&](std::int64_t drawn) {
    const Real share = 1 - std::exp(static_cast<Real>(drawn) * std::log(1 - part));
    const Real rank = share * kNumbers + margin * std::sqrt(share * (1 - share) * kNumbers) + 2;
    return static_cast<std::int32_t>(std::min(std::ceil(rank), kNumbers));
  };
  const std::int64_t vectors = std::int64_t{1} << sample.log_draws;  // of a group
  sample.rank = rank_of(vectors * 16 / element_bytes);
  sample.rank_if_alike = rank_of(vectors);
  return sample;
}

/// The capacity of the list of candidates. Rarely too small, if neighbours differ from each other.
inline std::int64_t cluster_list(std::int64_t rows, std::int64_t cols, std::int64_t k, std::int64_t element_bytes) {
  // A list that is full is pruned, which takes as long as to read some ten thousand elements. By a binomial estimate one
  // row in 67 to 990 has such a list, depending on k; of many rows, for which more blocks fit at a time, one in 28 to 128.
  const double deviations = rows > kClusterManyRows ? 2.0 : 2.5;
  constexpr double kNumbers = kClusterNumbers;
  const ClusterSample sample = cluster_sample(cols, k, element_bytes, cluster_margin(rows));
  const std::int64_t of_a_group = (std::int64_t{16} << sample.log_draws) / element_bytes;
  const auto drawn = static_cast<double>(of_a_group);
  const double rank = sample.rank;
  const double most = std::min(rank + deviations * std::sqrt(rank), kNumbers - 4.0);
  const double reaching = static_cast<double>(cols) * (1.0 - std::pow(1.0 - most / kNumbers, 1.0 / drawn));
  const std::int64_t wanted = std::max(static_cast<std::int64_t>(reaching), k + kClusterMinRoom);
  return (std::min(wanted, std::max(cols, std::int64_t{kClusterMinRoom})) + 31) / 32 * 32;
}

/// Elements of the longest part of a row. A part may begin anywhere in a vector of 16 bytes.
constexpr std::int64_t cluster_part_cols(std::int64_t cols, std::int64_t parts, std::int64_t element_bytes) {
  const std::int64_t vector = 16 / element_bytes;
  return (cols / vector + 2 + parts - 1) / parts * vector;
}

template <class T, int kThreadsOfBlock>
struct ClusterConfig {
  static constexpr int kThreads = kThreadsOfBlock;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  /// At least so many fit, as far as registers are concerned. `plain`: exact selections of full rows.
  static constexpr int blocks_per_multiprocessor(bool plain) {
    return sizeof(T) == 8 ? 1 : (plain ? 1280 : 1024) / kThreads;
  }
  // A part is copied to shared memory in tiles, ahead of its use.
  static constexpr int kLoads = 3;                 ///< Vectors of a thread in a tile.
  static constexpr int kTile = kThreads * kLoads;  ///< Vectors.
  static constexpr int kTiles = 2;                 ///< One is being copied while one is searched.
  static constexpr int kTileBytes = kTile * 16;
  static constexpr std::int64_t kStateBytes = sizeof(T) == 8 ? 10240 : 6784;
  /// Of a candidate: an element and its column, in arrays of their own.
  static constexpr std::int64_t kCandidateBytes = sizeof(T) + 4;

  static constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }
  /// First the tiles. After the part has been read the same memory holds the marks of columns.
  static constexpr std::int64_t tiles_at(std::int64_t capacity) {
    return kStateBytes + aligned(capacity * kCandidateBytes);
  }
  static constexpr std::int64_t tiles_bytes(std::int64_t part_cols) {
    return aligned(std::max(std::int64_t{kTiles} * kTileBytes, (part_cols / 32 + 1) * 6));
  }
  static constexpr std::int64_t shared_bytes(std::int64_t capacity, std::int64_t part_cols) {
    return tiles_at(capacity) + tiles_bytes(part_cols);
  }
  /// The capacity that so much shared memory allows.
  static constexpr std::int64_t capacity(std::int64_t shared_bytes, std::int64_t part_cols) {
    return (shared_bytes - kStateBytes - tiles_bytes(part_cols)) / kCandidateBytes / 32 * 32;
  }
};

}  // namespace rtopk::cuda
