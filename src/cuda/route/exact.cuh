// Routes a row by its exact scores, in shared memory: any number of experts and groups, any alignment, NaN, infinity,
// any number of ties. Rows that the registers cannot decide end here. They are few, but one of the last rows delays the
// end of the kernel: what would wait for one expert after another reads a few of them first. Other loops are not
// unrolled, so that the registers and the instruction cache are for other rows.
#pragma once

#include "cuda/route/row.cuh"

namespace rtopk::cuda {

inline constexpr int kExactAtOnce = 4;

/// A row for one warp, and the warp's shared memory.
template <class T>
struct RouteRow {
  const RouteArguments& args;
  const T* logits;
  int lane;
  std::uint32_t* keys;  ///< experts, then groups.
};

template <class T>
[[nodiscard]] __device__ RouteRow<T> exact_row(const RouteArguments& args, std::int64_t number, int lane,
                                               std::uint32_t* memory) {
  return {args, static_cast<const T*>(args.call.logits) + number * args.experts, lane, memory};
}

/// The greatest logit, and the inverse of the sum of powers, in the order of core/moe/score.hpp: a lane has every 32nd
/// of 128 experts.
template <class T>
__device__ SoftmaxRow softmax_of(const RouteRow<T>& row) {
  const int experts = row.args.experts;
  float greatest = -INFINITY;
#pragma unroll 1
  for (int e = row.lane; e < experts; e += 32) greatest = fmaxf(greatest, as_float(row.logits[e]));
  greatest = greatest_of_lanes(greatest);
  float sums[core::kScoreSums / 32] = {};
#pragma unroll 1
  for (int first = row.lane; first < experts; first += core::kScoreSums) {
#pragma unroll
    for (int i = 0; i < core::kScoreSums / 32; ++i) {
      const int e = first + 32 * i;
      if (e < experts) {
        sums[i] = core::rounded_sum(sums[i], core::softmax_power(as_float(row.logits[e]), greatest));
      }
    }
  }
#pragma unroll
  for (float& sum : sums) sum = sum_of_neighbours(sum);
  const float sum = core::rounded_sum(core::rounded_sum(sums[0], sums[1]), core::rounded_sum(sums[2], sums[3]));
  return {greatest, core::rounded_quotient(1.0f, sum)};
}

/// The key of a group's score.
[[nodiscard]] __device__ inline std::uint32_t key_of_group(const std::uint32_t* keys, int size) {
  std::uint32_t best = 0;
  std::uint32_t second = 0;
#pragma unroll 4
  for (int i = 0; i < size; ++i) {
    const std::uint32_t key = keys[i] - 1;
    second = max(second, min(best, key));
    best = max(best, key);
  }
  const float greatest = core::value_of<float>(best);
  return core::key_of(size == 1 ? greatest : core::rounded_sum(greatest, core::value_of<float>(second)));
}

/// Sets the keys of experts to 0 whose group is not among the group_k best.
template <class T>
__device__ void remove_groups(const RouteRow<T>& row) {
  const RouteArguments& args = row.args;
  const int size = args.experts / args.groups;
  std::uint32_t* group_keys = row.keys + args.experts;
#pragma unroll 1
  for (int g = row.lane; g < args.groups; g += 32) group_keys[g] = key_of_group(row.keys + g * size, size);
  __syncwarp();
#pragma unroll 1
  for (int g = row.lane; g < args.groups; g += 32) {
    const std::uint32_t key = group_keys[g];
    int better = 0;
    for (int other = 0; other < args.groups; ++other) {
      better += group_keys[other] > key || (group_keys[other] == key && other < g) ? 1 : 0;
    }
    if (better < args.group_k) continue;
    for (int e = g * size; e < (g + 1) * size; ++e) row.keys[e] = 0;
  }
  __syncwarp();
}

template <class T>
__device__ void route_exactly(const RouteRow<T>& row, std::int64_t number) {
  const RouteArguments& args = row.args;
  SoftmaxRow softmax;
  if (args.score == moe::Score::softmax) softmax = softmax_of(row);
    // Keys are one greater than those of the contract: 0 is for experts that are not, or no longer, to be selected.
#pragma unroll 1
  for (int first = row.lane; first < args.experts; first += 32 * kExactAtOnce) {
    float logits[kExactAtOnce] = {};
    float bias[kExactAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kExactAtOnce; ++i) {
      const int e = first + 32 * i;
      if (e >= args.experts) continue;
      logits[i] = as_float(row.logits[e]);
      if (args.call.bias != nullptr) bias[i] = args.call.bias[e];
    }
#pragma unroll
    for (int i = 0; i < kExactAtOnce; ++i) {
      const int e = first + 32 * i;
      if (e < args.experts) row.keys[e] = biased_key(args, score_of(args.score, logits[i], softmax), bias[i]) + 1;
    }
  }
  __syncwarp();
  if (args.groups > 1) remove_groups(row);
  int expert = 0;
#pragma unroll 1
  for (int rank = 0; rank < args.k; ++rank) {
    std::uint32_t best = 0;
    int place = 0;
#pragma unroll 4
    for (int e = row.lane; e < args.experts; e += 32) {
      const std::uint32_t key = row.keys[e];
      if (key > best) {
        best = key;
        place = e;
      }
    }
    const std::uint32_t greatest = __reduce_max_sync(kFullWarp, best);
    const int first = __reduce_min_sync(kFullWarp, best == greatest ? place : args.experts);
    if (row.lane == rank) expert = first;
    if (best == greatest && place == first) row.keys[first] = 0;
    // The owner of a key alone reads and writes it.
  }
  const float score = row.lane < args.k ? score_of(args.score, as_float(row.logits[expert]), softmax) : 0.0f;
  write_routes(args, number, row.lane, row.lane < args.k, score, expert);
  __syncwarp();
}

}  // namespace rtopk::cuda
