// Routes a row in the registers of a warp: the way of nearly all rows.
//
//   logits -> biased scores, approximate -> each lane's best in order -> the groups that stay
//          -> k times the greatest of all lanes -> are its neighbours in rank further away than the error?
//          -> exact scores of the selected -> weights
//
// Only selected experts have exact scores. Those take many instructions, because they must have the bits of every other
// device. Where the approximation leaves the order open, exact.cuh decides.
#pragma once

#include <bit>

#include "cuda/route/approximate.cuh"
#include "cuda/route/row.cuh"
#include "plan/tuning_route.hpp"

namespace rtopk::cuda {

// Biased scores are compared as integers. Biases are raised so that none is negative, and the bits of floating-point
// numbers that are not negative have their order. NaN is the greatest.
inline constexpr int kNoExpert = -1;             // less than every score, as -infinity is
inline constexpr int kInfiniteKey = 0x7f800000;  // from here on a row is open
inline constexpr int kOpenKey = 0x7fffffff;

template <class T>
[[nodiscard]] __device__ T minus_infinity() {
  if constexpr (sizeof(T) == 4) {
    return -INFINITY;
  } else {
    return T{static_cast<std::uint16_t>(0x8000u | core::ElementTraits<T>::infinity_bits)};
  }
}

/// How far a biased score may be from the exact one, for two of them together, twice over: absolute + relative * (score
/// + what biases were raised by). exp, the sum with 1, and the reciprocal of the hardware are together off by less than
/// 2^-22, and exact scores by less than 2^-23. The sums with a bias are rounded to within 2^-24 of their values, three
/// of them here and one in the exact score.
struct ScoreError {
  float absolute;
  float relative;
};
template <moe::Score kScore>
inline constexpr ScoreError kScoreError = kScore == moe::Score::sigmoid        ? ScoreError{0x1p-19f, 0x1p-20f}
                                          : kScore == moe::Score::sqrtsoftplus ? ScoreError{0x1p-40f, 0x1p-17f}
                                                                               : ScoreError{0.0f, 0x1p-20f};

/// What one lane of a row that was searched knows: the expert of its rank.
struct FoundRoute {
  int key = kNoExpert;  ///< Its biased score.
  int next = kOpenKey;  ///< The greatest one of those that were not selected.
  int expert = 0;
  SoftmaxRow softmax;
};

/// A place in shared memory, for the expert of one rank.
struct alignas(8) TakenKey {
  int key;
  int owner;
};

/// The experts of a lane. They come in parts of neighbours, and a part of all lanes is side by side. Softmax has parts
/// of four, because of the order in which its sum is made.
template <class T, int kPerLane, moe::Score kScore>
class FastRow {
  static constexpr bool kIsSoftmax = kScore == moe::Score::softmax;
  static constexpr int kPerPart = static_cast<int>(route_experts_per_part(kScore, kPerLane));
  static constexpr int kParts = kPerLane / kPerPart;
  static constexpr int kVector = static_cast<int>(route_experts_per_load(sizeof(T), kPerPart));
  static constexpr int kVectors = kPerLane / kVector;
  // The best of a lane that are kept in order. If more are selected the row is open: of k = 8 in 16 lanes,
  // one in 500.
  static constexpr int kDepth = 4;
  // The last bits of an approximate score are the expert's place in its lane, the lowest expert's the greatest. Scores
  // of softmax may be exact, and have none.
  static constexpr int kSlots = kIsSoftmax ? 1 : static_cast<int>(std::bit_ceil(static_cast<unsigned>(kPerLane)));
  // What the two scores of a comparison, and these bits, may be off by: twice that much.
  static constexpr float kSlotError = static_cast<float>(kSlots - 1) * 0x1p-23f;
  static constexpr float kRelativeError = kScoreError<kScore>.relative + 2.0f * kSlotError;

  struct alignas(kVector * sizeof(T)) Vector {
    T elements[kVector];
  };

 public:
  static constexpr bool kSeveralParts = kParts > 1;

  /// Begins to load the row that is searched first, this far from the beginning, before it waits for the bias: both are
  /// on their way at the same time.
  __device__ FastRow(const RouteArguments& args, int lane, const RouteStep& first)
      : args_(args), lane_(lane), logits_(static_cast<const char*>(args.call.logits) + expert_of(lane, 0) * sizeof(T)) {
    const auto exists = [&](int slot) { return expert_of(lane, slot) < args.experts; };
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) loaded_[j / kVector].elements[j % kVector] = minus_infinity<T>();
    load(first);
    float least = 0.0f;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      bias_[j] = args.call.bias != nullptr && exists(j) ? args.call.bias[expert_of(lane, j)] : 0.0f;
      if (bias_[j] > -INFINITY) least = fminf(least, bias_[j]);
    }
    raised_ = greatest_of_lanes(-least);
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) bias_[j] = exists(j) ? bias_[j] + raised_ : -INFINITY;
  }

  /// Begins to load the row that is searched next, which is so much further on.
  __device__ void load(const RouteStep& further) {
    number_ += further.rows;
    logits_ += further.bytes;
    if (number_ >= args_.rows) return;
    const auto* vectors = reinterpret_cast<const Vector*>(logits_);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int distance = expert_of(0, v * kVector);
      if (expert_of(lane_, v * kVector) < args_.experts) loaded_[v] = vectors[distance / kVector];
    }
  }

  /// Makes biased scores of the row that was loaded.
  __device__ void score() {
    float values[kPerLane];
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) values[j] = as_float(loaded_[j / kVector].elements[j % kVector]);
    if constexpr (kIsSoftmax) {
      make_softmax(values);
    } else {
#pragma unroll
      for (float& x : values) {
        x = kScore == moe::Score::sigmoid ? approximate_sigmoid(x) : approximate_sqrt_of_softplus(x);
      }
    }
    // Without a bias this adds zero, and -infinity to what is not an expert.
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const int key = __float_as_int(core::rounded_sum(values[j], bias_[j]));
      keys_[j] = kIsSoftmax ? key : (key & -kSlots) | (kSlots - 1 - j);
    }
  }

  /// Selects, and puts the row's experts by rank into k `places` of shared memory. Lanes for which the row is their own
  /// get in `found` what no other row may change; take() does the rest for all rows.
  __device__ void select(TakenKey* places, int rank_of_lane, bool is_own, FoundRoute& found) {
    int lists[kParts][kDepth];
#pragma unroll
    for (int p = 0; p < kParts; ++p) sort_part(p, lists[p]);
    if (args_.groups > 1) {
      switch (args_.log2_group_lanes) {
        case 0: keep_groups<1>(lists); break;
        case 1: keep_groups<2>(lists); break;
        case 2: keep_groups<4>(lists); break;
        case 3: keep_groups<8>(lists); break;
        case 4: keep_groups<16>(lists); break;
        default: keep_groups<32>(lists); break;
      }
    }
#pragma unroll
    for (int p = 1; p < kParts; ++p) merge(lists[0], lists[p]);

    __syncwarp();  // what was at these places has been read
    int rank = 0;
#pragma unroll 1
    for (; rank + 4 <= args_.k; rank += 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) take_greatest(lists[0], places + rank + i);
    }
#pragma unroll 1
    for (; rank < args_.k; ++rank) take_greatest(lists[0], places + rank);
    const int next = __reduce_max_sync(kFullWarp, lists[0][0]);
    if (is_own) found.next = next;
    if constexpr (kIsSoftmax) {
      __syncwarp();
      int owner = 0;
      if (is_own && rank_of_lane < args_.k) {
        found.key = places[rank_of_lane].key;
        owner = places[rank_of_lane].owner;
      }
      int slot = 0;
#pragma unroll
      for (int j = kPerLane - 1; j >= 0; --j) {
        if (__shfl_sync(kFullWarp, keys_[j], owner) == found.key) slot = j;
      }
      if (is_own) {
        found.expert = expert_of(owner, slot);
        found.softmax = softmax_;
      }
    }
  }

  /// Gives the lane its expert, from the lane's place.
  static __device__ void take(const TakenKey& place, bool has_route, FoundRoute& found) {
    if constexpr (!kIsSoftmax) {
      __syncwarp();
      if (!has_route) return;
      found.key = place.key;
      found.expert = expert_of(place.owner, kSlots - 1 - (place.key & (kSlots - 1)));
    }
  }

  /// What the difference of two biased scores must exceed to be certain, if this is the greater of them.
  [[nodiscard]] __device__ float error(float score) const {
    return is_exact() ? 0.0f : kScoreError<kScore>.absolute + kRelativeError * (score + raised_);
  }
  /// Whether biased scores are the exact ones.
  [[nodiscard]] __device__ bool is_exact() const { return kIsSoftmax && args_.call.bias == nullptr; }

 private:
  [[nodiscard]] static __device__ int expert_of(int lane, int slot) {
    return slot / kPerPart * (32 * kPerPart) + lane * kPerPart + slot % kPerPart;
  }

  __device__ void make_softmax(float (&values)[kPerLane]) {
    float greatest = -INFINITY;
#pragma unroll
    for (const float x : values) greatest = fmaxf(greatest, x);
    // Signed integers in the order of the values.
    const auto in_order = [](int bits) { return bits ^ ((bits >> 31) & 0x7fffffff); };
    softmax_.greatest = __int_as_float(in_order(__reduce_max_sync(kFullWarp, in_order(__float_as_int(greatest)))));
    float sums[4] = {};
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      values[j] = core::softmax_power(values[j], softmax_.greatest);
      sums[j % 4] = core::rounded_sum(sums[j % 4], values[j]);
    }
    const float sum =
        sum_of_neighbours(core::rounded_sum(core::rounded_sum(sums[0], sums[1]), core::rounded_sum(sums[2], sums[3])));
    softmax_.inverse_sum = core::rounded_quotient(1.0f, sum);
#pragma unroll
    for (float& x : values) x = core::rounded_product(x, softmax_.inverse_sum);
  }

  /// Takes the greatest of all lanes out of its list. Of equal ones the lowest lane's, which has the lowest experts if
  /// lanes have one part.
  __device__ void take_greatest(int (&list)[kDepth], TakenKey* place) const {
    const int best = __reduce_max_sync(kFullWarp, list[0]);
    const bool has_it = list[0] == best;
    const unsigned lanes_below = (1u << lane_) - 1u;
    if ((__ballot_sync(kFullWarp, has_it) & lanes_below) != 0 || !has_it) return;
    *place = {best, lane_};
#pragma unroll
    for (int i = 0; i + 1 < kDepth; ++i) list[i] = list[i + 1];
    list[kDepth - 1] = kPerLane > kDepth ? kOpenKey : kNoExpert;
  }

  static __device__ void order(int& first, int& second) {
    const int greater = max(first, second);
    second = min(first, second);
    first = greater;
  }

  /// The greatest of both lists, in order.
  static __device__ void merge(int (&list)[kDepth], const int (&other)[kDepth]) {
#pragma unroll
    for (int i = 0; i < kDepth; ++i) list[i] = max(list[i], other[kDepth - 1 - i]);
    order(list[0], list[2]);
    order(list[1], list[3]);
    order(list[0], list[1]);
    order(list[2], list[3]);
  }

  __device__ void sort_part(int part, int (&list)[kDepth]) const {
#pragma unroll
    for (int quad = 0; quad < kPerPart / 4; ++quad) {
      int four[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) four[i] = keys_[part * kPerPart + 4 * quad + i];
      order(four[0], four[1]);
      order(four[2], four[3]);
      order(four[0], four[2]);
      order(four[1], four[3]);
      order(four[1], four[2]);
      if (quad == 0) {
#pragma unroll
        for (int i = 0; i < 4; ++i) list[i] = four[i];
      } else {
        merge(list, four);
      }
    }
  }

  /// Empties the lists of groups that do not stay. Scores that are too close to tell leave the row open.
  ///
  /// A group has kLanes neighbouring lanes in one part. Each of them compares the group with some of the others.
  template <int kLanes>
  __device__ void keep_groups(int (&lists)[kParts][kDepth]) const {
    constexpr int kGroupsOfPart = 32 / kLanes;
    float sums[kParts];
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      int best = lists[p][0];
      int second = lists[p][1];
#pragma unroll
      for (int distance = 1; distance < kLanes; distance *= 2) {
        const int other_best = __shfl_xor_sync(kFullWarp, best, distance);
        const int other_second = __shfl_xor_sync(kFullWarp, second, distance);
        second = max(min(best, other_best), max(second, other_second));
        best = max(best, other_best);
      }
      sums[p] = core::rounded_sum(__int_as_float(best), __int_as_float(second));
    }
    // Of a sum: both errors.
    constexpr float kRelative = 2.0f * kRelativeError;
    const float relative = is_exact() ? 0.0f : kRelative;
    const float absolute = is_exact() ? 0.0f : 2.0f * kScoreError<kScore>.absolute + 2.0f * kRelative * raised_;
    // Surely better groups are counted by ones, possibly better ones by this.
    constexpr int kPossibly = 1 << 16;
    int counts[kParts] = {};
#pragma unroll 1
    for (int first = 0; first < args_.groups; first += kLanes) {
      const int other = first + lane_ % kLanes;
      float its = __shfl_sync(kFullWarp, sums[0], other * kLanes);
#pragma unroll
      for (int p = 1; p < kParts; ++p) {
        const float of_part = __shfl_sync(kFullWarp, sums[p], other * kLanes);
        if (other / kGroupsOfPart == p) its = of_part;
      }
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const int own = p * kGroupsOfPart + lane_ / kLanes;
        const float difference = its - sums[p];
        const float error = absolute + relative * (its + sums[p]);
        const bool counts_at_all = other < args_.groups && other != own;
        // Written so that NaN is possibly better.
        if (counts_at_all && !(difference < -error)) counts[p] += kPossibly;
        if (counts_at_all && difference > error) counts[p] += 1;
      }
    }
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
#pragma unroll
      for (int distance = 1; distance < kLanes; distance *= 2) {
        counts[p] += __shfl_xor_sync(kFullWarp, counts[p], distance);
      }
      const bool stays = counts[p] < args_.group_k * kPossibly;
      const bool goes = (counts[p] & (kPossibly - 1)) >= args_.group_k;
      const bool exists = p * kGroupsOfPart + lane_ / kLanes < args_.groups;
      const int instead = exists && !goes ? kOpenKey : kNoExpert;
#pragma unroll
      for (int i = 0; i < kDepth; ++i) lists[p][i] = stays ? lists[p][i] : i == 0 ? instead : kNoExpert;
    }
  }

  const RouteArguments& args_;
  int lane_;
  std::int64_t number_ = 0;  ///< Of the row that was loaded.
  const char* logits_;       ///< Where it begins for the lane.
  float raised_ = 0.0f;      ///< What was added to all biases.
  float bias_[kPerLane];
  Vector loaded_[kVectors];
  int keys_[kPerLane];
  SoftmaxRow softmax_;
};

}  // namespace rtopk::cuda
