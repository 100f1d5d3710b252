// Routes a row in the registers of a warp: the way of nearly all rows.
//
//   logits -> biased scores, approximate for sigmoid -> the groups that stay -> a threshold that k experts reach
//          -> the few candidates at or above it, one for each lane -> their exact scores -> their ranks -> results
//
// Only candidates have exact scores. Those take many instructions, because they must have the bits of every other
// device; approximate ones take a few, and leave out most experts before. Whatever the error of the approximation
// leaves open (a group at the limit, more candidates than lanes) is decided by exact.cuh.
#pragma once

#include "cuda/route/approximate.cuh"
#include "cuda/route/row.cuh"

namespace rtopk::cuda {

// The error of approximate scores. exp, the sum with 1, and the reciprocal of the hardware are together off by less than
// 2^-22, and exact scores by less than 2^-23; the sum with a bias is rounded twice, to within 2^-23 of its value. The
// bounds below are twice as wide as two such errors.
inline constexpr float kScoreError = 0x1p-19f;
inline constexpr float kBiasError = 0x1p-21f;

/// The experts of a lane: in slot q the four from 128 q + 4 lane on.
template <class T, int kPerLane>
class FastRow {
  static constexpr int kQuads = kPerLane / 4;

 public:
  __device__ FastRow(const RouteRow<T>& row) : row_(row), args_(row.args) {}

  /// Lists the experts that may be among the k best, and returns their number: 0 if the row must be routed exactly.
  __device__ int list() {
    load();
    const bool approximate = args_.score == moe::Score::sigmoid;
    score();
    bool is_open = false;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) is_open = is_open || values_[j] != values_[j];
    if (__any_sync(kFullWarp, is_open)) return 0;
    if (args_.groups > 1 && !keep_groups(approximate)) return 0;
    const int count = list_candidates(approximate);
    return count < args_.k || count > row_.max_candidates ? 0 : count;
  }

  [[nodiscard]] __device__ const SoftmaxRow& softmax() const { return softmax_; }

 private:
  struct alignas(4 * sizeof(T)) Quad {
    T elements[4];
  };

  __device__ void load() {
    const Quad* quads = reinterpret_cast<const Quad*>(row_.logits) + row_.lane;
    allowed_ = 0;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      if (128 * q + 4 * row_.lane < args_.experts) {
        const Quad quad = quads[32 * q];
#pragma unroll
        for (int i = 0; i < 4; ++i) values_[4 * q + i] = as_float(quad.elements[i]);
        allowed_ |= 0xfu << (4 * q);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) values_[4 * q + i] = -INFINITY;
      }
    }
  }

  /// Logits become biased scores.
  __device__ void score() {
    if (args_.score == moe::Score::sigmoid) {
#pragma unroll
      for (float& x : values_) x = approximate_sigmoid(x);
    } else if (args_.score == moe::Score::sqrtsoftplus) {
#pragma unroll
      for (float& x : values_) x = core::sqrt_of_softplus(x);
    } else {
      float greatest = -INFINITY;
#pragma unroll
      for (const float x : values_) greatest = fmaxf(greatest, x);
      softmax_.greatest = greatest_of_lanes(greatest);
      float sums[4] = {};
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) {
        values_[j] = core::softmax_power(values_[j], softmax_.greatest);
        sums[j % 4] = core::rounded_sum(sums[j % 4], values_[j]);
      }
      const float sum = sum_of_neighbours(
          core::rounded_sum(core::rounded_sum(sums[0], sums[1]), core::rounded_sum(sums[2], sums[3])));
      softmax_.inverse_sum = core::rounded_quotient(1.0f, sum);
#pragma unroll
      for (float& x : values_) x = core::rounded_product(x, softmax_.inverse_sum);
    }
    if (args_.call.bias == nullptr) return;
    const float4* biases = reinterpret_cast<const float4*>(args_.call.bias) + row_.lane;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      if (128 * q + 4 * row_.lane < args_.experts) {
        const float4 bias = biases[32 * q];
        values_[4 * q] = core::rounded_sum(values_[4 * q], bias.x);
        values_[4 * q + 1] = core::rounded_sum(values_[4 * q + 1], bias.y);
        values_[4 * q + 2] = core::rounded_sum(values_[4 * q + 2], bias.z);
        values_[4 * q + 3] = core::rounded_sum(values_[4 * q + 3], bias.w);
      }
    }
  }

  /// Takes away the experts of groups that do not stay. False if scores are too close to tell which do.
  ///
  /// A group has `lanes` neighbouring lanes in one slot, and every slot has 32 / lanes groups. Each lane compares the
  /// groups of its own slots with one other group; together the lanes of a group see all.
  __device__ bool keep_groups(bool approximate) {
    // Shifts and masks: a division takes longer than all comparisons here.
    const int log2_lanes = args_.log2_group_lanes;
    const int lanes = 1 << log2_lanes;
    const int log2_groups_per_slot = 5 - log2_lanes;
    float best[kQuads];
    float second[kQuads];
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const float* v = values_ + 4 * q;
      const float greater = fmaxf(v[0], v[1]);
      const float other_greater = fmaxf(v[2], v[3]);
      best[q] = fmaxf(greater, other_greater);
      second[q] = fmaxf(fminf(greater, other_greater), fmaxf(fminf(v[0], v[1]), fminf(v[2], v[3])));
    }
    for (int distance = 1; distance < lanes; distance *= 2) {
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        const float other_best = __shfl_xor_sync(kFullWarp, best[q], distance);
        const float other_second = __shfl_xor_sync(kFullWarp, second[q], distance);
        second[q] = fmaxf(fminf(best[q], other_best), fmaxf(second[q], other_second));
        best[q] = fmaxf(best[q], other_best);
      }
    }
    float low[kQuads];  // the exact score of the group is between these
    float high[kQuads];
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const float sum = core::rounded_sum(best[q], second[q]);
      const float error = approximate ? kScoreError + kBiasError * (fabsf(best[q]) + fabsf(second[q])) : 0.0f;
      low[q] = sum - error;
      high[q] = sum + error;
    }
    // The other group, and its limits.
    const int other = row_.lane & (lanes - 1);
    const int source = (other << log2_lanes) & 31;
    float other_low = 0.0f;
    float other_high = 0.0f;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const float its_low = __shfl_sync(kFullWarp, low[q], source);
      const float its_high = __shfl_sync(kFullWarp, high[q], source);
      if (other >> log2_groups_per_slot == q) {
        other_low = its_low;
        other_high = its_high;
      }
    }
    const unsigned of_group = (kFullWarp >> (32 - lanes)) << (row_.lane - other);
    bool is_open = false;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int own = (q << log2_groups_per_slot) + (row_.lane >> log2_lanes);
      const bool compares = other < args_.groups && other != own;
      // Written so that NaN, from infinities, leaves the row open.
      const unsigned surely_better = __ballot_sync(kFullWarp, compares && other_low > high[q]) & of_group;
      const unsigned surely_not = __ballot_sync(kFullWarp, !compares || other_high < low[q]) & of_group;
      const bool goes = __popc(surely_better) >= args_.group_k;
      const bool stays = lanes - __popc(surely_not) < args_.group_k;
      is_open = is_open || (own < args_.groups && !goes && !stays);
      if (!stays) allowed_ &= ~(0xfu << (4 * q));
#pragma unroll
      for (int i = 0; i < 4; ++i) values_[4 * q + i] = stays ? values_[4 * q + i] : -INFINITY;
    }
    return !__any_sync(kFullWarp, is_open);
  }

  /// Returns the number of candidates, or a number above max_candidates if they do not fit.
  __device__ int list_candidates(bool approximate) {
    float threshold = -INFINITY;
    if (args_.experts > 32) {
      threshold = kth_of_lanes();
      if (approximate) threshold -= kScoreError + kBiasError * fabsf(threshold);
    }
    unsigned mask = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) mask |= values_[j] >= threshold ? 1u << j : 0u;
    mask &= allowed_;
    const unsigned lanes_before = (1u << row_.lane) - 1u;
    int count = 0;
    for (;;) {
      const unsigned have_one = __ballot_sync(kFullWarp, mask != 0);
      if (have_one == 0) break;
      const int place = count + __popc(have_one & lanes_before);
      count += __popc(have_one);
      if (count > row_.max_candidates) break;
      if (mask != 0) {
        const unsigned j = static_cast<unsigned>(__ffs(static_cast<int>(mask))) - 1u;
        row_.candidates[place] = static_cast<int>((j & ~3u) * 32u + (j & 3u)) + 4 * row_.lane;
        mask &= mask - 1;
      }
    }
    __syncwarp();
    return count;
  }

  /// A value that at least k experts reach: the kth greatest of the lanes' greatest. Equal ones count once, so it may be
  /// lower than that, or NaN where there are fewer than k.
  __device__ float kth_of_lanes() {
    float greatest = values_[0];
#pragma unroll
    for (int j = 1; j < kPerLane; ++j) greatest = fmaxf(greatest, values_[j]);
    // Signed integers in the order of the values.
    constexpr int kTaken = -0x7fffffff - 1;
    const auto in_order = [](int bits) { return bits ^ ((bits >> 31) & 0x7fffffff); };
    int key = in_order(__float_as_int(greatest));
    int kth = key;
    const auto take_greatest = [&] {
      kth = __reduce_max_sync(kFullWarp, key);
      if (key == kth) key = kTaken;
    };
    int left = args_.k;
#pragma unroll 1
    for (; left >= 8; left -= 8) {  // k is 8 more often than anything else
#pragma unroll
      for (int i = 0; i < 8; ++i) take_greatest();
    }
#pragma unroll 1
    for (; left > 0; --left) take_greatest();
    return __int_as_float(in_order(kth));
  }

  const RouteRow<T>& row_;
  const RouteArguments& args_;
  float values_[kPerLane];
  unsigned allowed_ = 0;  ///< A bit for every expert of the lane that exists and whose group stays.
  SoftmaxRow softmax_;
};

/// The candidates of one row, or of two with half of the lanes each: exact scores, ranks, results.
template <class T>
class Candidates {
 public:
  /// `first`: the number of the first row. `count`: the candidates of the lane's own row; without any, nothing is
  /// written for it. `experts` and `scores`: 32 places in shared memory, of which `experts` has the candidates.
  __device__ Candidates(const RouteArguments& args, std::int64_t first, int lane, std::int32_t* experts, float* scores)
      : args_(args), lanes_(args.rows_at_once == 1 ? 32 : 16) {
    const int own = args.rows_at_once == 1 ? 0 : lane / 16;
    place_ = lane - own * lanes_;
    number_ = first + own;
    experts_ = experts + own * lanes_;
    scores_ = scores + own * lanes_;
  }

  __device__ void write(int count, const SoftmaxRow& softmax) {
    const bool has_one = place_ < count;
    int expert = 0;
    float score = 0.0f;
    std::uint32_t key = 0;
    if (has_one) {
      expert = experts_[place_];
      const auto* logits = static_cast<const T*>(args_.call.logits) + number_ * args_.experts;
      score = score_of(args_.score, as_float(logits[expert]), softmax);
      key = biased_key(args_, score, expert);
    }
    __syncwarp();
    const int most = __reduce_max_sync(kFullWarp, count);
    int rank = has_one ? 0 : 32;
#pragma unroll 4
    for (int i = 0; i < most; ++i) rank += __shfl_sync(kFullWarp, key, i, lanes_) > key ? 1 : 0;
    if (!place_by_rank(rank, score, expert)) {
      // Equal ones have the same rank, and one has taken the other's place: now with the lower expert first.
#pragma unroll 1
      for (int i = 0; i < most; ++i) {
        const std::uint32_t other = __shfl_sync(kFullWarp, key, i, lanes_);
        const int its_expert = __shfl_sync(kFullWarp, expert, i, lanes_);
        rank += i < count && other == key && its_expert < expert ? 1 : 0;
      }
      place_by_rank(rank, score, expert);
    }
    const bool has_route = place_ < args_.k && count > 0;
    write_routes(args_, number_, place_, has_route, has_route ? scores_[place_] : 0.0f,
                 has_route ? experts_[place_] : 0);
    __syncwarp();
  }

 private:
  /// Puts the k best candidates into the places of their ranks. False if two have the same.
  __device__ bool place_by_rank(int rank, float score, int expert) {
    __syncwarp();  // all have read what was there
    if (rank < args_.k) {
      experts_[rank] = expert;
      scores_[rank] = score;
    }
    __syncwarp();
    return !__any_sync(kFullWarp, rank < args_.k && experts_[rank] != expert);
  }

  const RouteArguments& args_;
  std::int64_t number_;
  std::int32_t* experts_;
  float* scores_;
  int place_;  ///< Of the lane among those of its row.
  int lanes_;
};

}  // namespace rtopk::cuda
