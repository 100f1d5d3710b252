// Counts of elements in bins of keys, the best keys in bin 0.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/block_sums.cuh"
#include "plan/select/tuning_parts.hpp"

namespace rtopk::cuda {

inline __device__ int bits_of(std::uint32_t x) { return 32 - __clz(static_cast<int>(x)); }
inline __device__ int bits_of(std::uint64_t x) { return 64 - __clzll(static_cast<long long>(x)); }

/// A bin, and how many elements are in the bins before it and in it.
struct FoundBin {
  int bin;
  int before;
  int inside;
};

/// The neighbouring bins of a lane.
inline constexpr int kBinsOfLane = kBins / 32;

/// Finds the bin that holds the k-th best key. All lanes of a warp call this, each with its counts; one writes.
inline __device__ void find_bin(const std::uint32_t (&counts)[kBinsOfLane], int k, FoundBin& found) {
  std::uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < kBinsOfLane; ++i) sum += counts[i];
  const auto rank = static_cast<std::uint32_t>(k);
  const std::uint32_t up_to_here = LaneGroup<32>::inclusive_sum(sum);
  std::uint32_t before = up_to_here - sum;
  if (before >= rank || rank > up_to_here) return;
  int bin = 0;
  std::uint32_t inside = 0;
#pragma unroll
  for (int i = 0; i < kBinsOfLane; ++i) {
    if (before + inside < rank) {
      bin = i;
      before += inside;
      inside = counts[i];
    }
  }
  found = {lane_number() * kBinsOfLane + bin, static_cast<int>(before), static_cast<int>(inside)};
}

}  // namespace rtopk::cuda
