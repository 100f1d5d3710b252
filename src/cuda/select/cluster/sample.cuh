// The first filter threshold of a row of cuda_cluster, from a sample of the whole row. It depends on ranks only, so
// that a little more than k elements reach it for every distribution and order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/candidate_search.cuh"
#include "cuda/select/cluster/arguments.hpp"
#include "cuda/select/cluster/part.cuh"
#include "cuda/select/cluster/threshold.cuh"
#include "plan/select/tuning_cluster.hpp"

namespace rtopk::cuda {

template <class T>
class RowSample {
 public:
  using Config = ClusterConfig<T>;
  using Order = ClusterKey<T>;
  using Key = typename Order::Key;
  using Warp = LaneGroup<32>;

  __device__ explicit RowSample(const ClusterArguments& args) : args_(args) {}

  /// The largest of this thread's samples: one of each piece of the row, at a place that does not follow any period of
  /// the row. Starts to copy the part as soon as the last samples have been requested.
  __device__ Key draw(const ClusterPart<T>& part) const {
    constexpr int kAtATime = 4;
    constexpr std::uint32_t kScatter = 40503;  // times a piece's number, of 16 bits: spread evenly, without a period
    constexpr int kNeighbours = sizeof(T) == 8 ? 2 : 4;
    using Drawn = std::conditional_t<sizeof(T) == 2, uint2, uint4>;
    const auto first_whole = static_cast<int>(part.row().column(part.row().column(0) < 0 ? 1 : 0));
    const int whole = max(static_cast<int>(args_.cols) - first_whole, 0) / Config::kVector;
    const T* vectors = part.row().elements() + first_whole;
    const int draws = whole > 0 ? 1 << args_.log_draws : 0;
    Key greatest = 0;
#pragma unroll 1
    for (int first = 0; first < draws; first += kAtATime) {
      union {
        Drawn bits;
        T raw[kNeighbours];
      } drawn[kAtATime];
#pragma unroll
      for (int i = 0; i < kAtATime; ++i) {
        const int s = first + i;
        const auto piece = static_cast<std::uint32_t>(s * kClusterThreads) + threadIdx.x;
        const std::uint32_t place = piece * kScatter % 65536;
        const std::uint64_t share = piece * 65536ull + place;  // of 2^24 << log_draws
        const auto vector =
            static_cast<std::int64_t>(share * static_cast<std::uint32_t>(whole) >> (24 + args_.log_draws));
        if (s < draws) drawn[i].bits = __ldg(reinterpret_cast<const Drawn*>(vectors + vector * Config::kVector));
      }
      if (first + kAtATime >= draws) part.fetch_first();
#pragma unroll
      for (int i = 0; i < kAtATime; ++i) {
#pragma unroll
        for (int j = 0; j < kNeighbours; ++j) {
          if (first + i < draws && j < args_.neighbours)
            greatest = max(greatest, Order::of(drawn[i].raw[j], args_.smallest));
        }
      }
    }
    return greatest;
  }

  /// The filter threshold, by one warp: a key that exactly threshold_rank of the threads' keys reach, or the largest
  /// that at least so many reach. Bisection is as fast as anything here, and short.
  __device__ Key filter_threshold_of(const Key* greatest_of_threads) const {
    KeysInRegisters<typename Order::Wide, kClusterWarps> all;
    Key greatest = 0;
    Key least = ~Key{0};
#pragma unroll
    for (int r = 0; r < kClusterWarps; ++r) {
      all.keys[r] = greatest_of_threads[r * 32 + lane_number()];
      greatest = max(greatest, all.keys[r]);
      least = min(least, all.keys[r]);
    }
    // Every lane has a key at or above the smallest of the lanes' largest keys.
    Key low = Warp::least(args_.threshold_rank <= 32 ? greatest : least);
    Key high = Warp::greatest(greatest);
    // Invariant: at least threshold_rank keys reach `low`, and fewer reach any key above `high`.
#pragma unroll 1
    while (low < high) {
      const Key middle = low + (high - low) / 2 + 1;
      const int reaching = all.count(middle);
      if (reaching >= args_.threshold_rank) low = middle;
      if (reaching == args_.threshold_rank) break;
      if (reaching < args_.threshold_rank) high = middle - 1;
    }
    return low;
  }

 private:
  const ClusterArguments& args_;
};

}  // namespace rtopk::cuda
