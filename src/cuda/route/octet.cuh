// Routes many rows of 128 to 512 experts, four at a time in a warp: eight lanes for each. Four rows share every
// instruction, and few steps of a row wait for another lane.
//
//   four rows -> shared memory, side by side as they are
//             -> the eight best of each lane, by the keys of lane_keys.cuh
//             -> groups, one in each lane: those that do not stay lose their keys
//             -> lists of lanes, merged in three steps: the eight best of the row, in order
//             -> is each further from the next than the error? -> a rank in each lane: exact scores -> weights
//
// The next four rows are on their way while exact scores and results are made. Where the order is not certain,
// exact.cuh decides, with all lanes for one row.
#pragma once

#include "cuda/route/exact.cuh"
#include "cuda/route/few.cuh"
#include "cuda/route/lane_terms.cuh"
#include "cuda/runtime/bulk_copy.cuh"

namespace rtopk::cuda {

/// Where the lanes of a row have their experts, in vectors of 16 bytes. Without groups, a vector of all lanes is side
/// by side. With groups, of which each lane has one, lanes begin at different vectors of their groups: neighbours would
/// otherwise read the same banks of shared memory.
class OctetPlaces {
 public:
  __device__ OctetPlaces(const RouteArguments& args, int per_vector) {
    if (args.groups == 1) return;
    lane_distance_ = args.experts / kOctetLanes / per_vector;
    distance_ = 1;
    mask_ = lane_distance_ - 1;
    turn_ = min(lane_distance_, kOctetLanes);
  }
  [[nodiscard]] __device__ int vector(int lane, int number) const {
    return lane * lane_distance_ + ((number + lane * turn_ / kOctetLanes) & mask_) * distance_;
  }

 private:
  int lane_distance_ = 1;       ///< From a lane's vectors to those of the next,
  int distance_ = kOctetLanes;  ///< and between those of a lane.
  int mask_ = -1;
  int turn_ = 0;  ///< Eighths of a vector by which each lane begins further on.
};

template <class T, moe::Score kScore>
class OctetRows {
 public:
  /// Memory: four rows, and the barrier of their copies.
  __device__ OctetRows(const RouteArguments& args, char* memory, std::uint64_t* barrier, int lane)
      : args_(args),
        row_bytes_(args.experts * static_cast<int>(sizeof(T))),
        lane_(lane),
        memory_(memory),
        places_(args, Vector::kCount),
        copy_(barrier, lane) {}

  /// Begins to load rows, which route() then takes.
  __device__ void load(std::int64_t first) const {
    const int rows = static_cast<int>(min(std::int64_t{kOctetRowsAtOnce}, args_.rows - first));
    copy_.start(memory_, static_cast<const char*>(args_.call.logits) + first * row_bytes_, rows * row_bytes_);
  }

  /// Routes rows from `first` on, and loads those from `next` on.
  __device__ void route(std::int64_t first, std::int64_t next, const float* terms, const LaneScale& scale) {
    const int rank = lane_ % kOctetLanes;
    const int row = lane_ / kOctetLanes;
    const std::int64_t number = first + row;
    const char* logits = memory_ + row * row_bytes_;
    copy_.wait();
    std::uint32_t list[kLaneList];
    rank_own(logits, terms, scale, list);
    bool certain = true;
    if (args_.groups > 1) certain = keep_groups(scale, list);
    const auto code = static_cast<std::uint32_t>((kOctetLanes - 1 - rank) * kMaxOctetExpertsOfLane);
#pragma unroll
    for (std::uint32_t& key : list) key += code;
    const std::uint32_t own_last = list[kLaneList - 1];
    std::uint32_t beyond;
    const std::uint32_t key = merge_lanes(list, lane_, beyond);
    std::uint32_t next_key = __shfl_down_sync(kFullWarp, key, 1, kOctetLanes);
    if (rank == kOctetLanes - 1) next_key = beyond;
    // What a lane has left out itself is no greater than the last of its list, which must be left out, too.
    const std::uint32_t last = __shfl_sync(kFullWarp, key, args_.k - 1, kOctetLanes);
    certain = certain && own_last < last;
    const int score = score_of_key(key);
    const bool has_route = rank < args_.k && number < args_.rows;
    const bool is_finite = score != kLaneNoScore && score < kLaneMaxScore;
    if (rank < args_.k) {
      certain = certain && is_finite && score - score_of_key(next_key) > scale.error + relative_error<kScore>(score);
    }
    const int expert = expert_of(key);
    float logit = 0.0f;
    if (has_route && is_finite) logit = as_float(reinterpret_cast<const T*>(logits)[expert]);
    SoftmaxRow softmax;
    if constexpr (kScore == moe::Score::softmax) {
      softmax.greatest = __shfl_sync(kFullWarp, logit, 0, kOctetLanes);
      softmax.inverse_sum = inverse_sum(logits, softmax.greatest);
      certain = certain && softmax.inverse_sum > 0.0f;  // not NaN
    }
    __syncwarp();  // these rows have been read
    const unsigned open = __ballot_sync(kFullWarp, number < args_.rows && !certain);
    if (open == 0 && next < args_.rows) load(next);
    const bool writes = has_route && (open >> (row * kOctetLanes) & ((1u << kOctetLanes) - 1u)) == 0;
    write_routes(args_, number, rank, writes, score_of(kScore, logit, softmax), expert);
    if (open == 0) return;
    route_open(first, open);
    if (next < args_.rows) load(next);
  }

 private:
  using Vector = LaneVector<T>;
  static constexpr int kVectorsOfPart = kOctetPart / Vector::kCount;

  /// The best of the lane's experts, which are numbered in the order in which the lane has them.
  __device__ void rank_own(const char* logits, const float* terms, const LaneScale& scale,
                           std::uint32_t (&list)[kLaneList]) const {
    rank_part(0, logits, terms, scale, list);
    const int parts = args_.experts / (kOctetLanes * kOctetPart);
#pragma unroll 1
    for (int part = 1; part < parts; ++part) {
      std::uint32_t other[kLaneList];
      rank_part(part * kVectorsOfPart, logits, terms, scale, other);
#pragma unroll
      for (std::uint32_t& key : other) key -= static_cast<std::uint32_t>(part * kOctetPart);
      std::uint32_t left_out = 0;
      merge_list(list, other, left_out);
    }
  }

  /// The best of the kOctetPart experts from the lane's vector `first` on, numbered from 0.
  __device__ void rank_part(int first, const char* logits, const float* terms, const LaneScale& scale,
                            std::uint32_t (&list)[kLaneList]) const {
#pragma unroll
    for (int begin = 0; begin < kOctetPart; begin += kLaneList) {
      std::uint32_t keys[kLaneList];
#pragma unroll
      for (int at = begin; at < begin + kLaneList; at += Vector::kCount) {
        const int place = places_.vector(lane_ % kOctetLanes, first + at / Vector::kCount);
        const Vector vector(logits + place * 16);
        float own_terms[Vector::kCount];
#pragma unroll
        for (int i = 0; i < Vector::kCount; i += 4) {
          const float4 four = kScore == moe::Score::softmax
                                  ? float4{0.5f, 0.5f, 0.5f, 0.5f}
                                  : *reinterpret_cast<const float4*>(terms + place * Vector::kCount + i);
          own_terms[i] = four.x;
          own_terms[i + 1] = four.y;
          own_terms[i + 2] = four.z;
          own_terms[i + 3] = four.w;
        }
#pragma unroll
        for (int i = 0; i < Vector::kCount; ++i) {
          const float score = scaled_score<kScore>(vector.values[i], own_terms[i], scale);
          // A multiplication and an addition in one; the compiler would make two of a shift.
          keys[at - begin + i] = __float_as_uint(score) * args_.lane_shift +
                                 static_cast<std::uint32_t>(kMaxOctetExpertsOfLane - 1 - at - i);
        }
      }
      sort_list(keys);
      if (begin == 0) {
#pragma unroll
        for (int i = 0; i < kLaneList; ++i) list[i] = keys[i];
      } else {
        std::uint32_t left_out = 0;
        merge_list(list, keys, left_out);
      }
    }
  }

  /// Empties the list of a lane whose group does not stay. Returns whether that is certain.
  __device__ bool keep_groups(const LaneScale& scale, std::uint32_t (&list)[kLaneList]) const {
    // Integers, which floating-point numbers hold without loss: a difference that is cut off at 0 and 1 is a
    // comparison, and leaves the unit for integers to the lists.
    const int of_both = score_of_key(list[0]) + score_of_key(list[1]);
    const auto sum = static_cast<float>(of_both);
    // The relative part is that of the greater sum, which is a little more.
    const auto error = static_cast<float>(2 * scale.error + relative_error<kScore>(of_both) + 2);
    float surely_better = 0.0f;
    float not_worse = 0.0f;
#pragma unroll
    for (int distance = 1; distance < kOctetLanes; ++distance) {
      const float difference = __shfl_xor_sync(kFullWarp, sum, distance) - sum;
      surely_better += __saturatef(difference - error);
      not_worse += __saturatef(difference + error);
    }
    const bool stays = not_worse < static_cast<float>(args_.group_k);
    const bool goes = surely_better >= static_cast<float>(args_.group_k);
    // NaN in a group that goes must not be overlooked, and a sum with minus infinity is none of these.
    const bool is_finite = score_of_key(list[0]) < kLaneMaxScore && score_of_key(list[1]) != kLaneNoScore;
#pragma unroll
    for (std::uint32_t& key : list) key = stays ? key : 0;
    return is_finite && (stays || goes);
  }

  /// The key of rank lane % kOctetLanes among the lists of all lanes of a row. `beyond` becomes the greatest that was
  /// left out here.
  ///
  /// The best eight of two lists are the maxima of a list and the other one turned around; two exchanges away they are
  /// in order. A lane does half of that: its neighbour, that has the other half, has ranks 4 to 7 if this has 0 to 3.
  static __device__ std::uint32_t merge_lanes(const std::uint32_t (&list)[kLaneList], int lane, std::uint32_t& beyond) {
    constexpr int kHalf = kLaneList / 2;
    const bool is_first = lane % 2 == 0;
    std::uint32_t half[kHalf];
    beyond = 0;
#pragma unroll
    for (int lanes = 2; lanes <= kOctetLanes; lanes *= 2) {
      std::uint32_t best[kHalf];
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        const std::uint32_t own = lanes == 2 ? list[i] : half[i];
        const std::uint32_t opposite = lanes == 2 ? list[kLaneList - 1 - i] : half[kHalf - 1 - i];
        const std::uint32_t other = __shfl_xor_sync(kFullWarp, opposite, lanes - 1);
        beyond = max(beyond, min(own, other));
        best[i] = max(own, other);
      }
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        // The second lane of the first pair has its half turned around.
        const std::uint32_t other = __shfl_xor_sync(kFullWarp, best[lanes == 2 ? kHalf - 1 - i : i], 1);
        half[i] = is_first ? max(best[i], other) : min(best[i], other);
      }
      order(half[0], half[2]);
      order(half[1], half[3]);
      order(half[0], half[1]);
      order(half[2], half[3]);
    }
#pragma unroll
    for (int distance = 1; distance < kOctetLanes; distance *= 2) {
      beyond = max(beyond, __shfl_xor_sync(kFullWarp, beyond, distance));
    }
    // A lane gives away one of its four, and takes its own rank from the lane that gives it.
    const std::uint32_t low = (lane & 2) != 0 ? half[1] : half[0];
    const std::uint32_t high = (lane & 2) != 0 ? half[3] : half[2];
    const int source = lane % kHalf * 2 + lane / kHalf % 2;
    return __shfl_sync(kFullWarp, (lane & 4) != 0 ? high : low, source, kOctetLanes);
  }

  [[nodiscard]] __device__ int expert_of(std::uint32_t key) const {
    const int code = expert_of_key(key);
    const int owner = code / kMaxOctetExpertsOfLane;
    const int place = code % kMaxOctetExpertsOfLane;
    return places_.vector(owner, place / Vector::kCount) * Vector::kCount + place % Vector::kCount;
  }

  /// The inverse of the sum of powers, in the order of core/moe/score.hpp: a lane has 16 of 128 sums.
  __device__ float inverse_sum(const char* logits, float greatest) const {
    float sums[kVectorsOfPart][Vector::kCount] = {};
    const int vectors = args_.experts / (kOctetLanes * Vector::kCount);
#pragma unroll 1
    for (int first = 0; first < vectors; first += kVectorsOfPart) {
#pragma unroll
      for (int v = 0; v < kVectorsOfPart; ++v) {
        const Vector vector(logits + places_.vector(lane_ % kOctetLanes, first + v) * 16);
#pragma unroll
        for (int i = 0; i < Vector::kCount; ++i) {
          sums[v][i] = core::rounded_sum(sums[v][i], core::softmax_power(vector.values[i], greatest));
        }
      }
    }
    float of_vectors[kVectorsOfPart];
#pragma unroll
    for (int v = 0; v < kVectorsOfPart; ++v) {
      of_vectors[v] = sum_in_pairs(sums[v]);
#pragma unroll
      for (int distance = 1; distance < kOctetLanes; distance *= 2) {
        of_vectors[v] = core::rounded_sum(of_vectors[v], __shfl_xor_sync(kFullWarp, of_vectors[v], distance));
      }
    }
    return core::rounded_quotient(1.0f, sum_in_pairs(of_vectors));
  }

  /// Routes the rows of these lanes exactly, in the place of rows.
  __device__ void route_open(std::int64_t first, unsigned open) const {
#pragma unroll 1
    for (int row = 0; row < kOctetRowsAtOnce; ++row) {
      if ((open >> (row * kOctetLanes) & ((1u << kOctetLanes) - 1u)) == 0) continue;
      route_exactly(exact_row<T>(args_, first + row, lane_, reinterpret_cast<std::uint32_t*>(memory_)), first + row);
    }
    order_copies_after_writes();
    __syncwarp();
  }

  const RouteArguments& args_;
  int row_bytes_;
  int lane_;
  char* memory_;
  OctetPlaces places_;
  WarpBulkCopy copy_;
};

template <class T, moe::Score kScore>
__global__ void __launch_bounds__(kRouteThreads, kOctetBlocks) route_octets_kernel(RouteArguments args) {
  extern __shared__ std::uint32_t route_memory[];
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  auto* terms = reinterpret_cast<float*>(route_memory);
  const int bytes_per_warp = kOctetRowsAtOnce * args.experts * static_cast<int>(sizeof(T));
  __shared__ std::uint64_t barriers[kRouteWarps];
  OctetRows<T, kScore> rows(args, reinterpret_cast<char*>(route_memory + args.experts) + warp * bytes_per_warp,
                            barriers + warp, lane);
  std::int64_t first = (std::int64_t{blockIdx.x} * kRouteWarps + warp) * args.rows_at_once;
  const auto load_first = [&] {
    if (first < args.rows) rows.load(first);
  };
  LaneScale scale;
  if constexpr (kScore == moe::Score::softmax) {
    scale = lane_scale<kScore>(0.0f, 0.0f);
    load_first();
  } else {
    scale = write_terms<kScore>(args, terms, load_first);
  }
  // To the first rows of the warp's next turn, from the last of this one.
  const std::int64_t step = (std::int64_t{gridDim.x} * kRouteWarps - 1) * args.rows_at_once + kOctetRowsAtOnce;
#pragma unroll 1
  while (first < args.rows) {
    const bool is_last = ((first + kOctetRowsAtOnce) & (args.rows_at_once - 1)) == 0;
    const std::int64_t next = first + (is_last ? step : kOctetRowsAtOnce);
    rows.route(first, next, terms, scale);
    first = next;
  }
}

}  // namespace rtopk::cuda
