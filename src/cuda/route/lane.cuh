// Routes many rows of 17 to 512 experts, one in every lane: no step of a row waits for another lane, and 32 rows share
// each instruction.
//
//   logits -> shared memory, 128 bytes of each row at a time
//          -> keys of biased scores, approximate, eight at a time in order -> merged with the best so far
//          -> groups: the lists of those that stay, in shared memory
//          -> is the k-th further from the next than the error? -> exact scores of the selected, in their order -> weights
//
// The eight are put in order by exact scores, so that only the limit of the selection, and that of groups, must be
// certain. Where they are not, exact.cuh decides, with all lanes for one row.
#pragma once

#include "cuda/route/exact.cuh"
#include "cuda/route/few.cuh"
#include "cuda/route/lane_terms.cuh"
#include "cuda/route/staged_rows.cuh"

namespace rtopk::cuda {

/// The groups of a lane's row that stay, of those that were offered.
class KeptGroups {
 public:
  __device__ KeptGroups(const RouteArguments& args, char* memory, int lane)
      : count_(args.group_k), memory_(memory + lane * 16) {
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) sums_[i] = i < count_ ? -1 : kTaken;
  }

  /// Takes a group's list instead of the worst that is kept, if it is better.
  __device__ void offer(const std::uint32_t (&list)[kLaneList]) {
    const int sum = score_of_key(list[0]) + score_of_key(list[1]);
    int place = 0;
    int worst = sums_[0];
#pragma unroll
    for (int i = 1; i < kPlaces; ++i) {
      place = sums_[i] < worst ? i : place;
      worst = min(worst, sums_[i]);
    }
    left_out_ = max(left_out_, min(sum, worst));
    // NaN in a group that goes must not be overlooked, and a sum with minus infinity is none of these.
    open_ = open_ || score_of_key(list[0]) >= kLaneMaxScore || score_of_key(list[1]) == kLaneNoScore;
    if (sum <= worst) return;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) sums_[i] = i == place ? sum : sums_[i];
    auto* to = reinterpret_cast<uint4*>(memory_ + place * static_cast<int>(kLaneListBytes));
    to[0] = {list[0], list[1], list[2], list[3]};
    to[32] = {list[4], list[5], list[6], list[7]};
  }

  /// The best of all groups that stay.
  __device__ void merge(std::uint32_t (&list)[kLaneList], std::uint32_t& beyond) const {
#pragma unroll 1
    for (int i = 0; i < count_; ++i) {
      const auto* from = reinterpret_cast<const uint4*>(memory_ + i * static_cast<int>(kLaneListBytes));
      const uint4 a = from[0];
      const uint4 b = from[32];
      const std::uint32_t other[kLaneList] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
      if (i == 0) {
#pragma unroll
        for (int j = 0; j < kLaneList; ++j) list[j] = other[j];
      } else {
        merge_list(list, other, beyond);
      }
    }
  }

  template <moe::Score kScore>
  [[nodiscard]] __device__ bool is_certain(const LaneScale& scale) const {
    const int worst = min(min(sums_[0], sums_[1]), min(sums_[2], sums_[3]));
    return !open_ && worst - left_out_ > 2 * scale.error + relative_error<kScore>(worst);
  }

 private:
  static constexpr int kPlaces = static_cast<int>(kMaxLaneGroups);
  static constexpr int kTaken = 0x7fffffff;  // there is no such place
  int count_;
  char* memory_;
  int sums_[kPlaces];
  int left_out_ = -1;  ///< The greatest sum of those that do not stay.
  bool open_ = false;
};

/// The best of kLanePart experts, which have their logits and terms there. Experts are numbered from 0 in these keys.
template <class T, moe::Score kScore>
__device__ void rank_part(const char* logits, const float* terms, const LaneScale& scale, std::uint32_t shift,
                          std::uint32_t (&list)[kLaneList], std::uint32_t& beyond) {
  using Vector = LaneVector<T>;
#pragma unroll
  for (int first = 0; first < kLanePart; first += kLaneList) {
    float own_terms[kLaneList];
#pragma unroll
    for (int i = 0; i < kLaneList; i += 4) {
      const auto four = *reinterpret_cast<const float4*>(terms + first + i);
      own_terms[i] = four.x;
      own_terms[i + 1] = four.y;
      own_terms[i + 2] = four.z;
      own_terms[i + 3] = four.w;
    }
    std::uint32_t keys[kLaneList];
#pragma unroll
    for (int at = 0; at < kLaneList; at += Vector::kCount) {
      const Vector vector(logits + (first + at) * static_cast<int>(sizeof(T)));
#pragma unroll
      for (int i = 0; i < Vector::kCount; ++i) {
        const float score = scaled_score<kScore>(vector.values[i], own_terms[at + i], scale);
        // A multiplication and an addition in one; the compiler would make two of a shift.
        const int place = kLanePart - 1 - (first + at + i);
        keys[at + i] = __float_as_uint(score) * shift + static_cast<std::uint32_t>(place);
      }
    }
    sort_list(keys);
    if (first == 0) {
#pragma unroll
      for (int i = 0; i < kLaneList; ++i) list[i] = keys[i];
    } else {
      merge_list(list, keys, beyond);
    }
  }
}

/// The sum of the powers of kLanePart experts. Those that do not exist have minus infinity, and 0.
template <class T>
[[nodiscard]] __device__ float powers_of_part(const char* logits, float greatest) {
  using Vector = LaneVector<T>;
  float sums[kLanePart / kLaneList];
#pragma unroll
  for (int first = 0; first < kLanePart; first += kLaneList) {
    float powers[kLaneList];
#pragma unroll
    for (int at = 0; at < kLaneList; at += Vector::kCount) {
      const Vector vector(logits + (first + at) * static_cast<int>(sizeof(T)));
#pragma unroll
      for (int i = 0; i < Vector::kCount; ++i) {
        powers[at + i] = core::softmax_power(vector.values[i], greatest);
      }
    }
    sums[first / kLaneList] = sum_in_pairs(powers);
  }
  return sum_in_pairs(sums);
}

/// An expert that was selected: its place in the order of results, and its score.
struct LaneRoute {
  std::uint64_t rank;  ///< The exact biased score, then the expert, the lowest the greatest; 0 for none.
  float score;
};

/// Best first.
__device__ inline void sort_routes(LaneRoute (&routes)[kLaneList]) {
  // Nearly all are in order, by approximate scores.
  bool in_order = true;
#pragma unroll
  for (int i = 0; i + 1 < kLaneList; ++i) in_order = in_order && routes[i].rank >= routes[i + 1].rank;
  if (in_order) return;
#pragma unroll 1
  for (int turn = 0; turn < kLaneList; turn += 2) {
#pragma unroll
    for (int j = 0; j < 2 * kLaneList - 3; ++j) {
      // Neighbours at even places, then at odd ones.
      const int i = j < kLaneList / 2 ? 2 * j : 2 * (j - kLaneList / 2) + 1;
      if (i + 1 < kLaneList && routes[i].rank < routes[i + 1].rank) {
        const LaneRoute greater = routes[i + 1];
        routes[i + 1] = routes[i];
        routes[i] = greater;
      }
    }
  }
}

/// A warp's 32 rows.
template <class T, moe::Score kScore>
class LaneRows {
 public:
  /// Memory: lane_bytes_per_warp.
  __device__ LaneRows(const RouteArguments& args, char* memory, int lane)
      : args_(args),
        pieces_((args.experts + StagedRows<T>::kExperts - 1) / StagedRows<T>::kExperts),
        memory_(memory),
        lane_(lane),
        staged_(args, pieces_, memory, lane) {}

  /// Begins to load rows, which route() then takes.
  __device__ void load(std::int64_t first) {
    if (first < args_.rows) staged_.begin(logits_of(first), rows_from(first), kIsSoftmax ? 2 * pieces_ : pieces_);
  }

  __device__ void route(std::int64_t first, const float* terms, const LaneScale& scale) {
    const int rows = rows_from(first);
    std::uint32_t best[kLaneList];
    bool open = !select(terms, scale, best) && lane_ < rows;
    const bool is_routed = !open && lane_ < rows;
    const T* logits = logits_of(first) + lane_ * args_.experts;
    float own[kLaneList];
    float bias[kLaneList];
#pragma unroll
    for (int i = 0; i < kLaneList; ++i) {
      const bool loads = is_routed && i < args_.k;
      own[i] = loads ? as_float(logits[expert_of_key(best[i])]) : -INFINITY;
      bias[i] = loads && args_.call.bias != nullptr ? args_.call.bias[expert_of_key(best[i])] : 0.0f;
    }
    SoftmaxRow softmax;
    if constexpr (kIsSoftmax) {
#pragma unroll
      for (int i = 0; i < kLaneList; ++i) softmax.greatest = i == 0 ? own[0] : fmaxf(softmax.greatest, own[i]);
      softmax.inverse_sum = inverse_sum(softmax.greatest);
      open = open || (is_routed && !(softmax.inverse_sum > 0.0f));  // NaN
    }
    write(first, rows, best, own, bias, softmax);
    // Rows that are open have been written, too, and are written again.
    unsigned left = __ballot_sync(kFullWarp, open);
#pragma unroll 1
    for (; left != 0; left &= left - 1) {
      const std::int64_t number = first + __ffs(static_cast<int>(left)) - 1;
      route_exactly(exact_row<T>(args_, number, lane_, reinterpret_cast<std::uint32_t*>(memory_)), number);
    }
  }

 private:
  static constexpr bool kIsSoftmax = kScore == moe::Score::softmax;
  static constexpr int kPartsOfPiece = static_cast<int>(StagedRows<T>::kExperts / kLanePart);
  static constexpr int kPartBytes = static_cast<int>(kLanePart * sizeof(T));

  [[nodiscard]] __device__ int rows_from(std::int64_t first) const {
    return static_cast<int>(min(std::int64_t{32}, args_.rows - first));
  }
  [[nodiscard]] __device__ const T* logits_of(std::int64_t row) const {
    return static_cast<const T*>(args_.call.logits) + row * args_.experts;
  }

  /// The best of the lane's row. Returns whether it is certain that they are those of the exact scores, in any order.
  __device__ bool select(const float* terms, const LaneScale& scale, std::uint32_t (&best)[kLaneList]) {
    KeptGroups groups(args_, memory_ + kLaneStages * kLaneStageBytes, lane_);
    std::uint32_t beyond = 0;
    int part = 0;
    int left_of_group = 0;
#pragma unroll 1
    for (int piece = 0; piece < pieces_; ++piece) {
      const char* logits = staged_.piece(piece);
#pragma unroll 1
      for (int i = 0; i < kPartsOfPiece; ++i, ++part) {
        std::uint32_t list[kLaneList];
        rank_part<T, kScore>(logits + i * kPartBytes, terms + part * kLanePart, scale, args_.lane_shift, list, beyond);
        const auto before = static_cast<std::uint32_t>(kMaxLaneExperts - (part + 1) * kLanePart);
#pragma unroll
        for (int j = 0; j < kLaneList; ++j) list[j] += before;
        if (left_of_group == 0) {
          left_of_group = args_.lane_group_parts;
#pragma unroll
          for (int j = 0; j < kLaneList; ++j) best[j] = list[j];
        } else {
          merge_list(best, list, beyond);
        }
        if (--left_of_group == 0 && args_.groups > 1) groups.offer(best);
      }
      staged_.done();
    }
    bool certain = true;
    if (args_.groups > 1) {
      groups.merge(best, beyond);
      certain = groups.is_certain<kScore>(scale);
    }
    // The list is in order. No place in it is named by k, so that it stays in registers.
    std::uint32_t last = best[0];
    std::uint32_t next = beyond;
#pragma unroll
    for (int i = 1; i < kLaneList; ++i) {
      last = min(last, i < args_.k ? best[i] : ~0u);
      next = max(next, i < args_.k ? 0u : best[i]);
    }
    const int score = score_of_key(last);
    return certain && score != kLaneNoScore && score_of_key(best[0]) < kLaneMaxScore &&
           score - score_of_key(next) > scale.error + relative_error<kScore>(score);
  }

  /// The inverse of the sum of powers, in the order of core/moe/score.hpp. All experts are among the first 128: each has
  /// a sum of its own.
  [[nodiscard]] __device__ float inverse_sum(float greatest) {
    float halves[2] = {};
    int part = 0;
#pragma unroll 1
    for (int piece = 0; piece < pieces_; ++piece) {
      const char* logits = staged_.piece(pieces_ + piece);
#pragma unroll 1
      for (int i = 0; i < kPartsOfPiece; ++i, ++part) {
        const float sum = powers_of_part<T>(logits + i * kPartBytes, greatest);
        if (part < 2) {
          halves[0] = core::rounded_sum(halves[0], sum);
        } else {
          halves[1] = core::rounded_sum(halves[1], sum);
        }
      }
      staged_.done();
    }
    return core::rounded_quotient(1.0f, core::rounded_sum(halves[0], halves[1]));
  }

  /// Writes the results of all rows.
  __device__ void write(std::int64_t first, int rows, const std::uint32_t (&best)[kLaneList],
                        const float (&logits)[kLaneList], const float (&bias)[kLaneList], const SoftmaxRow& softmax) {
    LaneRoute routes[kLaneList];
#pragma unroll
    for (int i = 0; i < kLaneList; ++i) {
      routes[i] = {};
      if (i >= args_.k) continue;
      const int expert = expert_of_key(best[i]);
      const float score = score_of(kScore, logits[i], softmax);
      const std::uint32_t key = expert < args_.experts ? biased_key(args_, score, bias[i]) : 0;
      routes[i] = {std::uint64_t{key} << 32 | ~static_cast<std::uint32_t>(expert), score};
    }
    sort_routes(routes);
    float scores[kLaneList];
#pragma unroll
    for (int i = 0; i < kLaneList; ++i) scores[i] = routes[i].score;
    const float sum = sum_in_pairs(scores);
    // By way of shared memory: the results of 32 rows are side by side. No copy is on its way any more.
    auto* weights = reinterpret_cast<float*>(memory_);
    auto* ids = reinterpret_cast<std::int32_t*>(weights + 32 * kLaneList);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kLaneList; ++i) {
      if (i >= args_.k) continue;
      weights[lane_ * args_.k + i] = core::routed_weight(scores[i], sum, args_.renormalize, args_.scale);
      ids[lane_ * args_.k + i] = static_cast<std::int32_t>(~static_cast<std::uint32_t>(routes[i].rank));
    }
    __syncwarp();
#pragma unroll 4
    for (int i = lane_; i < rows * args_.k; i += 32) {
      args_.call.weights[first * args_.k + i] = weights[i];
      args_.call.ids[first * args_.k + i] = ids[i];
    }
    __syncwarp();
  }

  const RouteArguments& args_;
  int pieces_;  ///< Of a row.
  char* memory_;
  int lane_;
  StagedRows<T> staged_;
};

template <class T, moe::Score kScore>
__global__ void __launch_bounds__(kRouteThreads, kLaneBlocks) route_lanes_kernel(RouteArguments args) {
  extern __shared__ std::uint32_t route_memory[];
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  auto* terms = reinterpret_cast<float*>(route_memory);
  char* memory = reinterpret_cast<char*>(route_memory + lane_experts(args.experts)) +
                 warp * static_cast<int>(lane_bytes_per_warp(args.groups));
  LaneRows<T, kScore> rows(args, memory, lane);
  const std::int64_t step = std::int64_t{gridDim.x} * kRouteThreads;
  std::int64_t first = (std::int64_t{blockIdx.x} * kRouteWarps + warp) * 32;
  const LaneScale scale = write_terms<kScore>(args, terms, [&] { rows.load(first); });
#pragma unroll 1
  while (first < args.rows) {
    rows.route(first, terms, scale);
    first += step;
    rows.load(first);
  }
}

}  // namespace rtopk::cuda
