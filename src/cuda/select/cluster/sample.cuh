// The first filter threshold of a row of cuda_cluster, from a sample of the whole row. It depends on ranks only, so
// that a little more than k elements reach it for every distribution and order.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/candidate_search.cuh"
#include "cuda/select/cluster/arguments.hpp"
#include "cuda/select/element.cuh"
#include "cuda/select/key_range.cuh"
#include "cuda/select/row_vectors.cuh"
#include "plan/select/tuning_cluster.hpp"

namespace rtopk::cuda {

/// What a sample tells of a row.
template <class Key>
struct ClusterThreshold {
  Key key;         ///< A little more than k elements reach it.
  Key usual_high;  ///< Few exceed it.
  bool has_ties;   ///< Many are equal to the key.
};

/// The groups of a sample: the largest element of each, and the smallest.
template <class Key>
struct SampleGroups {
  Key greatest[kClusterNumbers];
  Key least[kClusterNumbers];
};

template <class T>
class RowSample {
 public:
  using Key = WideKey<T>;
  using Warp = LaneGroup<32>;
  static constexpr int kNumbers = kClusterNumbers;

  __device__ explicit RowSample(const ClusterArguments& args) : args_(args) {}

  /// Draws this thread's groups. A group is one vector of each of some pieces of the row, at places that do not follow
  /// any period of the row.
  __device__ void draw(const RowVectors<T>& row, SampleGroups<Key>& groups) const {
    constexpr std::uint32_t kScatter = 40503;  // times a piece's number, of 16 bits: spread evenly, without a period
    constexpr int kVector = Vector<T>::kSize;
    const auto first_whole = static_cast<int>(row.column(row.column(0) < 0 ? 1 : 0));
    const int whole = max(static_cast<int>(args_.cols) - first_whole, 0) / kVector;
    const T* vectors = row.elements() + first_whole;
    const int draws = whole > 0 ? 1 << args_.log_draws : 0;
#pragma unroll 2
    for (int group = static_cast<int>(threadIdx.x); group < kNumbers; group += static_cast<int>(blockDim.x)) {
      Key greatest = 0;
      Key least = core::max_key<T>;
#pragma unroll 2
      for (int i = 0; i < draws; ++i) {
        const auto piece = static_cast<std::uint32_t>(i * kNumbers + group);
        const std::uint32_t place = piece * kScatter % 65536;
        const std::uint64_t share = piece * 65536ull + place;  // of kNumbers << (16 + log_draws)
        const auto vector =
            static_cast<std::int64_t>(share * static_cast<std::uint32_t>(whole) / kNumbers >> (16 + args_.log_draws));
        Vector<T> drawn;
        drawn.bits = __ldg(reinterpret_cast<const uint4*>(vectors + vector * kVector));
#pragma unroll
        for (int j = 0; j < kVector; ++j) {
          const Key key = directed_key(compared(drawn.raw[j], args_.magnitude), args_.smallest);
          greatest = max(greatest, key);
          least = min(least, key);
        }
      }
      groups.greatest[group] = greatest;
      groups.least[group] = least;
    }
  }

  /// The filter threshold, by one warp. It is a key that as many groups reach as were expected to, with a margin. If
  /// neighbours are alike, a group is worth one element, and fewer groups are enough.
  __device__ ClusterThreshold<Key> threshold_of(const SampleGroups<Key>& groups) const {
    constexpr int kTies = 32;  // of 256 groups
    constexpr Key kTop = core::max_key<T>;
    Key keys[kNumbers / 32];
    Key greatest = 0;
    Key least = kTop;
#pragma unroll
    for (int r = 0; r < kNumbers / 32; ++r) {
      keys[r] = groups.greatest[r * 32 + lane_number()];
      greatest = max(greatest, keys[r]);
      least = min(least, keys[r]);
    }
    // Each lane has a group that reaches the smallest of the lanes' largest keys.
    const Key of_all = Warp::least(args_.threshold_rank <= 32 ? greatest : least);
    greatest = Warp::greatest(greatest);
    const auto reaching = [&](Key threshold) {
      int mine[2] = {0, 0};
#pragma unroll
      for (int r = 0; r < kNumbers / 32; ++r) count_if_at_least(keys[r], threshold, mine[r % 2]);
      return Warp::sum(mine[0] + mine[1]);
    };
    int rank = args_.threshold_rank;
    Key low;
#pragma unroll 1
    while (true) {
      // The largest key that at least `rank` groups reach, or one that exactly so many reach. Bisection is as fast as
      // anything here, and short.
      low = of_all;
      Key high = greatest;
#pragma unroll 1
      while (low < high) {
        const Key middle = low + (high - low) / 2 + 1;
        const int number = reaching(middle);
        if (number >= rank) low = middle;
        if (number == rank) break;
        if (number < rank) high = middle - 1;
      }
      if (rank == args_.rank_if_alike) break;
      int alike = 0;
#pragma unroll 1
      for (int group = lane_number(); group < kNumbers; group += 32) alike += groups.least[group] >= low ? 1 : 0;
      if (2 * Warp::sum(alike) < rank) break;
      rank = args_.rank_if_alike;
    }
    const bool has_ties = reaching(low) - (low == kTop ? 0 : reaching(low + 1)) >= kTies;
    return {low, greatest + min(greatest - low, kTop - greatest), has_ties};
  }

 private:
  const ClusterArguments& args_;
};

/// Sets the ranks of the sample for a row of another length or k than the plan's.
template <class T>
__device__ void sample_again(ClusterArguments& args) {
  const ClusterSample sample = cluster_sample<float>(args.cols, args.k, sizeof(T), args.sample_margin);
  args.log_draws = sample.log_draws;
  args.threshold_rank = sample.rank;
  args.rank_if_alike = sample.rank_if_alike;
}

}  // namespace rtopk::cuda
