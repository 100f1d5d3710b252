// Expert routing in plain loops. Those over all experts have no branches, so that compilers make vectors of them.
#include "core/moe/reference.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

#include "core/dispatch.hpp"
#include "core/keys.hpp"
#include "core/moe/score.hpp"

namespace rtopk::core {
namespace {

constexpr int kMaxExperts = static_cast<int>(moe::kMaxExperts);
constexpr int kMaxRoutes = static_cast<int>(moe::kMaxRoutes);

/// Adds neighbours in pairs until one sum is left. `count` is a power of two.
float sum_of_pairs(float* sums, std::ptrdiff_t count) {
  for (; count > 1; count /= 2) {
    for (std::ptrdiff_t i = 0; i < count / 2; ++i) sums[i] = rounded_sum(sums[2 * i], sums[2 * i + 1]);
  }
  return sums[0];
}

void softmax(float* row, int experts) {
  float greatest = -std::numeric_limits<float>::infinity();
  for (int e = 0; e < experts; ++e) greatest = row[e] > greatest ? row[e] : greatest;
  for (int e = 0; e < experts; ++e) row[e] = softmax_power(row[e], greatest);
  float sums[kScoreSums] = {};
  for (int first = 0; first < experts; first += kScoreSums) {
    const int count = std::min(experts - first, kScoreSums);
    for (int i = 0; i < count; ++i) sums[i] = rounded_sum(sums[i], row[first + i]);
  }
  // Sums of no experts are zero: adding them changes nothing.
  const int used = std::min(static_cast<int>(std::bit_ceil(static_cast<unsigned>(experts))), kScoreSums);
  const float inverse = rounded_quotient(1.0f, sum_of_pairs(sums, used));
  for (int e = 0; e < experts; ++e) row[e] = rounded_product(row[e], inverse);
}

/// Turns a row of logits into scores.
void score_row(moe::Score score, float* row, int experts) {
  switch (score) {
    case moe::Score::softmax: return softmax(row, experts);
    case moe::Score::sigmoid:
      for (int e = 0; e < experts; ++e) row[e] = sigmoid(row[e]);
      return;
    case moe::Score::sqrtsoftplus:
      for (int e = 0; e < experts; ++e) row[e] = sqrt_of_softplus(row[e]);
      return;
  }
}

/// The best keys so far with the numbers that they have, best first. Of equal keys the one that was offered first.
class Best {
 public:
  explicit Best(int k) : k_(k) {}

  void offer(std::uint32_t key, int number) {
    if (used_ == k_ && key <= keys_[k_ - 1]) return;
    if (used_ < k_) ++used_;
    int place = used_ - 1;
    for (; place > 0 && keys_[place - 1] < key; --place) {
      keys_[place] = keys_[place - 1];
      numbers_[place] = numbers_[place - 1];
    }
    keys_[place] = key;
    numbers_[place] = number;
  }
  [[nodiscard]] int number(int place) const { return numbers_[place]; }

 private:
  int k_;
  int used_ = 0;
  std::uint32_t keys_[kMaxExperts];  // as many as there may be groups
  int numbers_[kMaxExperts];
};

/// The key of the sum of the two greatest of a group's biased scores.
std::uint32_t group_key(const std::uint32_t* keys, int size) {
  std::uint32_t best = 0;
  std::uint32_t second = 0;
  for (int i = 0; i < size; ++i) {
    second = std::max(second, std::min(best, keys[i]));
    best = std::max(best, keys[i]);
  }
  const auto greatest = value_of<float>(best);
  return key_of(size == 1 ? greatest : rounded_sum(greatest, value_of<float>(second)));
}

/// Offers the experts of the best groups, in ascending order.
void offer_groups(const moe::Route& p, const std::uint32_t* keys, Best& best) {
  const int groups = static_cast<int>(p.groups);
  const int size = static_cast<int>(p.experts) / groups;
  Best best_groups(static_cast<int>(p.group_k));
  const std::uint32_t* own = keys;
  for (int group = 0; group < groups; ++group, own += size) best_groups.offer(group_key(own, size), group);
  bool stays[kMaxExperts] = {};
  for (int place = 0; place < p.group_k; ++place) stays[best_groups.number(place)] = true;
  for (int group = 0; group < groups; ++group) {
    if (!stays[group]) continue;
    for (int e = group * size; e < (group + 1) * size; ++e) best.offer(keys[e], e);
  }
}

template <class T>
void route(const moe::Route& p, const T* logits, const moe::RouteCall& call, std::int64_t row) {
  const int experts = static_cast<int>(p.experts);
  float scores[kMaxExperts];
  std::uint32_t keys[kMaxExperts];  // of biased scores
  for (int e = 0; e < experts; ++e) scores[e] = arithmetic_of(logits[row * experts + e]);
  score_row(p.score, scores, experts);
  if (p.biased) {
    for (int e = 0; e < experts; ++e) keys[e] = key_of(rounded_sum(scores[e], call.bias[e]));
  } else {
    for (int e = 0; e < experts; ++e) keys[e] = key_of(scores[e]);
  }
  Best best(static_cast<int>(p.k));
  if (p.groups == 1) {
    for (int e = 0; e < experts; ++e) best.offer(keys[e], e);
  } else {
    offer_groups(p, keys, best);
  }
  float sums[kMaxRoutes] = {};
  for (int i = 0; i < p.k; ++i) sums[i] = scores[best.number(i)];
  const float sum = sum_of_pairs(sums, kMaxRoutes);
  for (int i = 0; i < p.k; ++i) {
    call.ids[row * p.k + i] = best.number(i);
    call.weights[row * p.k + i] = routed_weight(scores[best.number(i)], sum, p.renormalize, p.scale);
  }
}

}  // namespace

void route_rows(const moe::Route& problem, const moe::RouteCall& call, std::int64_t first, std::int64_t last) noexcept {
  with_element_type(problem.dtype, [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, double> && !std::is_same_v<T, std::int32_t>) {
      const auto* logits = static_cast<const T*>(call.logits);
      for (std::int64_t row = first; row < last; ++row) route(problem, logits, call, row);
    }
  });
}

}  // namespace rtopk::core
