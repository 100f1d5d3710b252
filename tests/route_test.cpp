// Expert routing on every device of this machine: scores against f64, selections against a sort of all experts, hard
// rows, guarded memory, any number of threads or blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <rtopk/moe/route.hpp>
#include <rtopk/rtopk.hpp>

#include "encoding.hpp"
#include "enumerators.hpp"
#include "on_device.hpp"
#include "random.hpp"

namespace rtopk_test {

namespace moe = rtopk::moe;
namespace {

using moe::Score;
using rtopk::DType;
using rtopk::IndexType;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<DType> kTypes{DType::f32, DType::f16, DType::bf16};

struct Routes {
  std::vector<float> weights;
  std::vector<std::int64_t> ids;
};

/// The same bits; NaN has only one form in results.
bool same(const Routes& a, const Routes& b) {
  return a.ids == b.ids && a.weights.size() == b.weights.size() &&
         std::memcmp(a.weights.data(), b.weights.data(), a.weights.size() * sizeof(float)) == 0;
}

struct Options {
  std::int32_t threads = 1;
  std::size_t misalignment = 0;
  std::function<void(moe::RoutePlan&)> change = [](moe::RoutePlan&) {};
};

/// Gives each lane a row, as plans of many rows with 16 bits and a bias do. Returns whether there are such plans of the
/// problem: others have them too, but are not given them.
bool give_rows_to_lanes(moe::RoutePlan& plan) {
  moe::Route many = plan.problem;
  if (many.experts * static_cast<std::int64_t>(rtopk::size_of(many.dtype)) % 16 != 0) return false;
  if (many.score == Score::softmax && (many.experts > 128 || many.groups > 1 || many.biased)) return false;
  many.rows = 100'000;
  many.dtype = DType::bf16;
  many.biased = true;
  many.score = Score::sigmoid;
  // Shapes with as much memory, which are not given to octets.
  if (many.groups == 1) many.experts = (many.experts + 7) / 8 * 8 - (many.experts % 128 == 0 ? 8 : 0);
  if (many.groups == 8 && many.experts % 256 == 0 && many.group_k <= 4) many.groups = 4;
  many.device = {rtopk::DeviceKind::cuda, 0};
  const rtopk::Traits traits{.device = many.device, .compute_capability = 90, .multiprocessors = 1};
  moe::RoutePlan lanes;
  EXPECT_TRUE(moe::make_plan(many, traits, lanes).ok());
  if (lanes.rows_per_worker != 32) return false;
  plan.rows_per_worker = 32;
  plan.shared_bytes = lanes.shared_bytes;
  return true;
}

/// Gives eight lanes each a row, as plans of many rows do. Returns whether there are such plans of the problem.
bool give_rows_to_octets(moe::RoutePlan& plan, std::int64_t rows_of_a_warp = 8) {
  const moe::Route& p = plan.problem;
  const bool softmax = p.score == Score::softmax;
  if (p.experts % 128 != 0 || p.experts > 512 || p.k > 8) return false;
  if (p.groups == 1 ? softmax && p.biased : p.groups != 8 || softmax || p.experts == 384) return false;
  plan.rows_per_worker = rows_of_a_warp;
  plan.shared_bytes = static_cast<std::size_t>(p.experts) * (4 + 16 * rtopk::size_of(p.dtype));
  return true;
}

/// Runs a problem on a device, in guarded memory.
Routes run_on(rtopk::DeviceKind kind, moe::Route p, const std::vector<float>& logits, const std::vector<float>& bias,
              const Options& options = {}) {
  p.device.kind = kind;
  rtopk::Traits traits;
  EXPECT_TRUE(rtopk::query_traits(p.device, traits).ok());
  traits.threads = options.threads;
  moe::RoutePlan plan;
  const rtopk::Status planned = moe::make_plan(p, traits, plan);
  EXPECT_TRUE(planned.ok()) << planned.text();
  options.change(plan);
  const auto count = static_cast<std::size_t>(p.rows * p.k);
  const auto input = DeviceMemory::make(kind, encode(logits, p.dtype), options.misalignment);
  const auto biases = DeviceMemory::make(kind, encode(bias, DType::f32), options.misalignment / 4 * 4);
  const auto weights = DeviceMemory::make(kind, Bytes(count * 4, std::byte{0xee}), options.misalignment / 4 * 4);
  const auto ids = DeviceMemory::make(kind, Bytes(count * 4, std::byte{0xee}), options.misalignment / 4 * 4);
  const rtopk::Status status = moe::run(plan, {.logits = input->data(),
                                               .bias = static_cast<float*>(biases->data()),
                                               .weights = static_cast<float*>(weights->data()),
                                               .ids = static_cast<std::int32_t*>(ids->data())});
  EXPECT_TRUE(status.ok()) << status.text();
  Routes routes{decode(weights->content(), DType::f32), decode(ids->content(), IndexType::i32)};
  EXPECT_EQ(weights->damage(), "") << "weights";
  EXPECT_EQ(ids->damage(), "") << "ids";
  EXPECT_EQ(input->damage(), "") << "logits";
  return routes;
}

// ---- The oracle ----

/// All scores of a problem, from the library on the CPU: a token with one expert has that expert's score, and an expert
/// with a huge bias is always selected.
std::vector<float> scores_of(moe::Route p, const std::vector<float>& logits) {
  std::vector<float> scores(logits.size());
  p.renormalize = false;
  p.scale = 1.0f;
  p.k = p.groups = p.group_k = 1;
  if (p.score != Score::softmax) {
    p.rows *= p.experts;
    p.experts = 1;
    p.biased = false;
    return run_on(rtopk::DeviceKind::cpu, p, logits, {}).weights;
  }
  p.biased = true;
  for (std::int64_t e = 0; e < p.experts; ++e) {
    std::vector<float> bias(static_cast<std::size_t>(p.experts));
    bias[static_cast<std::size_t>(e)] = 1000.0f;
    // If a score is NaN all are, and any expert shows that.
    const Routes routes = run_on(rtopk::DeviceKind::cpu, p, logits, bias);
    for (std::int64_t row = 0; row < p.rows; ++row) {
      scores[static_cast<std::size_t>(row * p.experts + e)] = routes.weights[static_cast<std::size_t>(row)];
    }
  }
  return scores;
}

/// The contract's order: NaN is greatest.
bool is_greater(float a, float b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

/// Numbers 0 to count - 1, best first, equal ones in ascending order.
std::vector<std::int64_t> in_order(const std::vector<float>& values) {
  std::vector<std::int64_t> numbers(values.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  std::stable_sort(numbers.begin(), numbers.end(), [&](std::int64_t a, std::int64_t b) {
    return is_greater(values[static_cast<std::size_t>(a)], values[static_cast<std::size_t>(b)]);
  });
  return numbers;
}

float sum_in_pairs(std::vector<float> values) {
  values.resize(32);
  for (std::size_t count = 32; count > 1; count /= 2) {
    for (std::size_t i = 0; i < count / 2; ++i) values[i] = values[2 * i] + values[2 * i + 1];
  }
  return values[0];
}

Routes expected(const moe::Route& p, const std::vector<float>& logits, const std::vector<float>& bias) {
  const std::vector<float> scores = scores_of(p, logits);
  const auto experts = static_cast<std::size_t>(p.experts);
  const std::size_t size = experts / static_cast<std::size_t>(p.groups);
  Routes routes;
  for (std::size_t row = 0; row < static_cast<std::size_t>(p.rows); ++row) {
    const float* own = scores.data() + row * experts;
    std::vector<float> biased(own, own + experts);
    if (p.biased) {
      for (std::size_t e = 0; e < experts; ++e) biased[e] += bias[e];
    }
    std::vector<float> group_scores;
    for (std::size_t g = 0; g < static_cast<std::size_t>(p.groups); ++g) {
      const std::vector<float> group(biased.begin() + static_cast<std::ptrdiff_t>(g * size),
                                     biased.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
      const std::vector<std::int64_t> order = in_order(group);
      group_scores.push_back(
          size == 1 ? group[0] : group[static_cast<std::size_t>(order[0])] + group[static_cast<std::size_t>(order[1])]);
    }
    std::vector<bool> stays(static_cast<std::size_t>(p.groups));
    const std::vector<std::int64_t> best_groups = in_order(group_scores);
    for (std::int64_t g = 0; g < p.group_k; ++g) {
      stays[static_cast<std::size_t>(best_groups[static_cast<std::size_t>(g)])] = true;
    }
    std::vector<float> chosen;
    for (const std::int64_t e : in_order(biased)) {
      if (static_cast<std::int64_t>(chosen.size()) == p.k) break;
      if (!stays[static_cast<std::size_t>(e) / size]) continue;
      routes.ids.push_back(e);
      chosen.push_back(own[e]);
    }
    const float sum = sum_in_pairs(chosen) + 1e-20f;
    for (const float score : chosen) {
      const float weight = (p.renormalize ? score / sum : score) * p.scale;
      routes.weights.push_back(std::isnan(weight) ? kNan : weight);
    }
  }
  return routes;
}

// ---- Inputs ----

std::vector<float> normal(std::int64_t count, Random& random, double scale = 1.0) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = static_cast<float>(scale * random.normal());
  return values;
}

/// Rows that are hard for a selection, by number.
constexpr int kHardKinds = 10;
std::vector<float> hard(int kind, std::int64_t count, Random& random) {
  std::vector<float> values = normal(count, random);
  const std::vector<float> special{kNan, -kNan, kInfinity, -kInfinity, -0.0f, 0.0f};
  for (float& x : values) {
    switch (kind) {
      case 0: x = 1.25f; break;
      case 1: x = -kInfinity; break;
      case 2: x = kNan; break;
      case 3: x = kInfinity; break;
      case 4: x = static_cast<float>(random.between(0, 2)); break;
      case 5: x = random.between(0, 3) == 0 ? random.pick(special) : x; break;
      case 6: x *= 60.0f; break;                                                      // saturated, and below 2^-126
      case 7: x = 1.0f + static_cast<float>(random.between(0, 3)) * 0x1p-23f; break;  // differ in the last bits
      case 8: x = random.between(0, 40) == 0 ? x : -kInfinity; break;
      default: x = random.coin() ? -0.0f : 0.0f; break;
    }
  }
  return values;
}

/// One that plans of many rows give to lanes.
moe::Route random_problem_of_lanes(Random& random) {
  moe::Route p;
  p.rows = random.between(1, 300);
  p.dtype = random.pick(kTypes);
  p.score = random.pick(enumerators<Score>());
  const bool softmax = p.score == Score::softmax;
  p.biased = !softmax && random.coin();
  if (!softmax && random.coin()) {
    const std::int64_t size = 32 * random.between(1, 4);
    p.groups = random.between(2, 512 / size);
    p.group_k = random.between(1, std::min<std::int64_t>(4, p.groups));
    p.experts = size * p.groups;
  } else {
    p.experts = 8 * random.between(3, softmax ? 16 : 64);
  }
  p.k = random.coin() ? 8 : random.between(1, 8);
  p.renormalize = random.coin();
  p.scale = random.coin() ? 1.0f : 2.5f;
  return p;
}

/// One that plans of many rows give to octets.
moe::Route random_problem_of_octets(Random& random) {
  moe::Route p;
  p.rows = random.between(1, 300);
  p.dtype = random.pick(kTypes);
  p.score = random.pick(enumerators<Score>());
  const bool softmax = p.score == Score::softmax;
  p.biased = !softmax && random.coin();
  p.experts = 128 * random.between(1, 4);
  if (!softmax && p.experts != 384 && random.coin()) {
    p.groups = 8;
    p.group_k = random.between(1, 8);
  }
  p.k = random.coin() ? 8 : random.between(1, 8);
  p.renormalize = random.coin();
  p.scale = random.coin() ? 1.0f : 2.5f;
  return p;
}

moe::Route random_problem(Random& random) {
  moe::Route p;
  p.rows = random.between(1, 9);
  p.experts = random.pick(
      std::vector<std::int64_t>{1, 2, 3, 8, 16, 31, 32, 36, 60, 64, 100, 128, 160, 256, 384, 512, 1000, 1024});
  if (random.coin()) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= p.experts; ++d) {
      if (p.experts % d == 0) divisors.push_back(d);
    }
    p.groups = random.pick(divisors);
  }
  p.group_k = random.between(1, p.groups);
  const std::int64_t most = std::min<std::int64_t>(32, p.experts / p.groups * p.group_k);
  p.k = random.coin() ? std::min<std::int64_t>(8, most) : random.between(1, most);
  p.score = random.pick(enumerators<Score>());
  p.dtype = random.pick(kTypes);
  p.biased = random.coin();
  p.renormalize = random.coin();
  p.scale = random.coin() ? 1.0f : 2.5f;
  return p;
}

/// As the element type holds them.
std::vector<float> rounded(const std::vector<float>& values, DType dtype) {
  return decode(encode(values, dtype), dtype);
}

class Routing : public OnDevice {
 protected:
  static void expect_right(const moe::Route& p, const std::vector<float>& logits, const std::vector<float>& bias,
                           const Options& options = {}) {
    SCOPED_TRACE(testing::Message() << name(p.score) << ", " << name(p.dtype) << ", " << p.rows << " rows, "
                                    << p.experts << " experts, k " << p.k << ", " << p.group_k << " of " << p.groups
                                    << " groups, bias " << p.biased << ", misaligned " << options.misalignment);
    const Routes want = expected(p, rounded(logits, p.dtype), bias);
    const Routes got = run_on(GetParam(), p, logits, bias, options);
    ASSERT_EQ(got.ids, want.ids);
    for (std::size_t i = 0; i < want.weights.size(); ++i) {
      ASSERT_TRUE(got.weights[i] == want.weights[i] || (std::isnan(got.weights[i]) && std::isnan(want.weights[i])))
          << "weight " << i << ": " << got.weights[i] << ", expected " << want.weights[i];
    }
    if (GetParam() != rtopk::DeviceKind::cuda) return;
    for (const std::int64_t rows : {1, 2, 4}) {
      if (rows * p.k > 32) continue;
      Options at_once = options;  // 4 as with many rows, 1 as with few
      at_once.change = [&](moe::RoutePlan& plan) { plan.rows_per_worker = rows; };
      EXPECT_TRUE(same(run_on(GetParam(), p, logits, bias, at_once), got)) << rows << " rows of a warp at a time";
    }
    Options lanes = options;
    lanes.change = [](moe::RoutePlan& plan) { give_rows_to_lanes(plan); };
    EXPECT_TRUE(same(run_on(GetParam(), p, logits, bias, lanes), got)) << "a row in each lane";
    Options octets = options;
    octets.change = [](moe::RoutePlan& plan) { give_rows_to_octets(plan); };
    EXPECT_TRUE(same(run_on(GetParam(), p, logits, bias, octets), got)) << "a row in eight lanes";
  }
};

TEST_P(Routing, OfTheModelsIsRight) {
  Random random(401);
  struct Model {
    std::int64_t experts, k, groups, group_k;
    Score score;
    bool biased;
  };
  for (const Model& m : {Model{8, 2, 1, 1, Score::softmax, false}, Model{128, 8, 1, 1, Score::softmax, false},
                         Model{60, 4, 1, 1, Score::softmax, false}, Model{64, 6, 1, 1, Score::softmax, true},
                         Model{256, 8, 8, 4, Score::sigmoid, true}, Model{384, 8, 1, 1, Score::sigmoid, true},
                         Model{160, 8, 1, 1, Score::sigmoid, true}, Model{512, 10, 1, 1, Score::softmax, false},
                         Model{256, 6, 1, 1, Score::sqrtsoftplus, true}, Model{512, 22, 8, 2, Score::sigmoid, true}}) {
    for (const DType dtype : kTypes) {
      const moe::Route p{.rows = 33,
                         .experts = m.experts,
                         .k = m.k,
                         .groups = m.groups,
                         .group_k = m.group_k,
                         .dtype = dtype,
                         .score = m.score,
                         .biased = m.biased,
                         .scale = 2.5f};
      expect_right(p, normal(p.rows * p.experts, random), normal(p.experts, random, 0.1));
    }
  }
}

TEST_P(Routing, OfRandomProblemsIsRightWhereverTheyLie) {
  Random random(seed() + 409);
  for (std::int64_t i = 0; i < scaled(150); ++i) {
    const moe::Route p = random_problem(random);
    const std::size_t element = rtopk::size_of(p.dtype);
    expect_right(p, normal(p.rows * p.experts, random), normal(p.experts, random, random.coin() ? 0.1 : 30.0),
                 {.threads = static_cast<std::int32_t>(random.between(1, 4)),
                  .misalignment = random.coin() ? 0 : element * static_cast<std::size_t>(random.between(1, 5))});
  }
}

TEST_P(Routing, OfHardRowsIsRight) {
  Random random(seed() + 419);
  for (int kind = 0; kind < kHardKinds; ++kind) {
    for (std::int64_t i = 0; i < scaled(12); ++i) {
      moe::Route p = random_problem(random);
      if (i % 3 == 0) {
        p.experts = 256;
        p.groups = 8;
        p.group_k = 4;
        p.k = 8;
        p.score = Score::sigmoid;
        p.biased = true;
      }
      std::vector<float> bias = normal(p.experts, random, 0.1);
      if (random.coin()) bias = std::vector<float>(bias.size());
      SCOPED_TRACE(testing::Message() << "rows of kind " << kind);
      expect_right(p, hard(kind, p.rows * p.experts, random), bias);
    }
  }
}

TEST_P(Routing, OfHardBiasesIsRight) {
  Random random(seed() + 421);
  for (int kind = 0; kind < kHardKinds; ++kind) {
    for (std::int64_t i = 0; i < scaled(6); ++i) {
      moe::Route p = random_problem(random);
      p.biased = true;
      SCOPED_TRACE(testing::Message() << "a bias of kind " << kind);
      expect_right(p, normal(p.rows * p.experts, random), hard(kind, p.experts, random));
    }
  }
}

// Rows and biases of any kind, where each lane, or each eight, have a row, against the CPU.
TEST_P(Routing, ByLanesIsRight) {
  if (GetParam() == rtopk::DeviceKind::cpu) GTEST_SKIP() << "a CPU has no lanes";
  Random random(seed() + 449);
  for (std::int64_t i = 0; i < scaled(400); ++i) {
    const bool octets = i % 2 == 1;
    const moe::Route p = octets ? random_problem_of_octets(random) : random_problem_of_lanes(random);
    // Half of the time nothing is hard.
    std::vector<float> logits = normal(p.rows * p.experts, random, random.coin() ? 1.0 : 5.0);
    std::vector<float> bias = normal(p.experts, random, random.coin() ? 0.1 : 30.0);
    const auto kind = static_cast<int>(random.between(0, 2 * kHardKinds - 1));
    const auto kind_of_bias = static_cast<int>(random.between(0, 4 * kHardKinds - 1));
    if (kind < kHardKinds) logits = hard(kind, p.rows * p.experts, random);
    if (kind_of_bias < kHardKinds) bias = hard(kind_of_bias, p.experts, random);
    if (random.between(0, 4) == 0) logits[static_cast<std::size_t>(random.between(0, p.rows * p.experts - 1))] = kNan;
    const std::int64_t blocks = random.between(1, 4);
    const auto change = [&](moe::RoutePlan& plan) {
      EXPECT_TRUE(octets ? give_rows_to_octets(plan, i % 4 == 1 ? 8 : 16) : give_rows_to_lanes(plan));
      plan.blocks = blocks;
    };
    const std::size_t misalignment = random.between(0, 9) == 0 ? rtopk::size_of(p.dtype) : 0;
    const Routes got = run_on(GetParam(), p, logits, bias, {.misalignment = misalignment, .change = change});
    EXPECT_TRUE(same(got, run_on(rtopk::DeviceKind::cpu, p, logits, bias)))
        << name(p.score) << ", " << name(p.dtype) << ", " << p.rows << " rows, " << p.experts << " experts, k " << p.k
        << ", " << p.group_k << " of " << p.groups << " groups, bias " << p.biased << ", rows of kind " << kind
        << ", a bias of kind " << kind_of_bias << ", misaligned " << misalignment << ", octets " << octets;
  }
}

// Scores that an approximation cannot tell apart, and groups at the limit.
TEST_P(Routing, OfScoresThatNearlyTieIsRight) {
  Random random(431);
  for (std::int64_t i = 0; i < scaled(40); ++i) {
    const moe::Route p{
        .rows = 20, .experts = 256, .k = 8, .groups = 8, .group_k = 4, .score = Score::sigmoid, .biased = true};
    std::vector<float> logits = normal(p.rows * p.experts, random, 0.3);
    // Copies of the best of some groups, with noise in the last bits.
    for (std::size_t j = 0; j < logits.size(); ++j) {
      if (random.between(0, 12) == 0) logits[j] = 2.0f + static_cast<float>(random.between(-4, 4)) * 0x1p-22f;
    }
    expect_right(p, logits, std::vector<float>(256, i % 2 == 0 ? 0.0f : 0.125f));
  }
}

TEST_P(Routing, IsTheSameWithAnyNumberOfThreadsOrBlocks) {
  Random random(433);
  const moe::Route p{
      .rows = 701, .experts = 256, .k = 8, .groups = 8, .group_k = 4, .score = Score::sigmoid, .biased = true};
  const std::vector<float> logits = normal(p.rows * p.experts, random);
  const std::vector<float> bias = normal(p.experts, random, 0.1);
  const Routes routes = run_on(GetParam(), p, logits, bias);
  if (GetParam() == rtopk::DeviceKind::cpu) {
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{9}, std::numeric_limits<std::int64_t>::max()}) {
      const auto change = [&](moe::RoutePlan& plan) { plan.rows_per_worker = rows; };
      EXPECT_TRUE(same(run_on(GetParam(), p, logits, bias, {.threads = 4, .change = change}), routes));
    }
  } else {
    for (const std::int64_t blocks : {1, 7, 5000}) {
      for (const std::int64_t rows : {1, 2, 4}) {
        const auto change = [&](moe::RoutePlan& plan) {
          plan.blocks = blocks;
          plan.rows_per_worker = rows;
        };
        EXPECT_TRUE(same(run_on(GetParam(), p, logits, bias, {.change = change}), routes));
      }
      const auto lanes = [&](moe::RoutePlan& plan) {
        plan.blocks = blocks;
        EXPECT_TRUE(give_rows_to_lanes(plan));
      };
      EXPECT_TRUE(same(run_on(GetParam(), p, logits, bias, {.change = lanes}), routes));
      const auto octets = [&](moe::RoutePlan& plan) {
        plan.blocks = blocks;
        EXPECT_TRUE(give_rows_to_octets(plan));
      };
      EXPECT_TRUE(same(run_on(GetParam(), p, logits, bias, {.change = octets}), routes));
    }
  }
}

// Many rows, of which some are at the limits of an approximation: the same bits on every device.
TEST_P(Routing, HasTheBitsOfTheCpu) {
  if (GetParam() == rtopk::DeviceKind::cpu) GTEST_SKIP() << "this is the CPU";
  Random random(seed() + 439);
  for (const Score score : enumerators<Score>()) {
    for (const DType dtype : kTypes) {
      for (const std::int64_t groups : {1, 8}) {
        const moe::Route p{.rows = scaled(4000),
                           .experts = 256,
                           .k = 8,
                           .groups = groups,
                           .group_k = groups == 1 ? 1 : 4,
                           .dtype = dtype,
                           .score = score,
                           .biased = groups == 8};
        const std::vector<float> logits = normal(p.rows * p.experts, random, random.coin() ? 1.0 : 5.0);
        const std::vector<float> bias = normal(p.experts, random, 0.1);
        const Routes of_cpu = run_on(rtopk::DeviceKind::cpu, p, logits, bias);
        EXPECT_TRUE(same(run_on(GetParam(), p, logits, bias), of_cpu))
            << name(score) << ", " << name(dtype) << ", " << groups << " groups";
        const auto lanes = [](moe::RoutePlan& plan) { give_rows_to_lanes(plan); };
        EXPECT_TRUE(same(run_on(GetParam(), p, logits, bias, {.change = lanes}), of_cpu))
            << name(score) << ", " << name(dtype) << ", " << groups << " groups, by lanes";
        const auto octets = [](moe::RoutePlan& plan) { give_rows_to_octets(plan); };
        EXPECT_TRUE(same(run_on(GetParam(), p, logits, bias, {.change = octets}), of_cpu))
            << name(score) << ", " << name(dtype) << ", " << groups << " groups, by octets";
      }
    }
  }
}

TEST_P(Routing, OfNoRowsWritesNothing) {
  const moe::Route p{.rows = 0, .experts = 8, .k = 2};
  EXPECT_TRUE(run_on(GetParam(), p, {}, {}).ids.empty());
}

INSTANTIATE_TEST_SUITE_P(On, Routing, kDevices, device_name);

TEST(RouteScores, AreWithinTwoAndAHalfUlp) {
  Random random(443);
  constexpr std::int64_t kCount = 200'000;
  std::vector<float> logits(kCount);
  for (float& x : logits) x = static_cast<float>(-87.0 + 127.0 * random.uniform());
  for (const Score score : {Score::sigmoid, Score::sqrtsoftplus}) {
    const std::vector<float> scores = scores_of({.rows = kCount, .experts = 1, .k = 1, .score = score}, logits);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double x = logits[i];
      const double exact = score == Score::sigmoid ? 1.0 / (1.0 + std::exp(-x)) : std::sqrt(std::log1p(std::exp(x)));
      ASSERT_NEAR(scores[i], exact, 2.5 * std::ldexp(1.0, std::ilogb(exact) - 23)) << name(score) << " of " << x;
    }
  }
  const moe::Route p{.rows = 50, .experts = 300, .k = 1, .score = Score::softmax};
  const std::vector<float> rows = normal(p.rows * p.experts, random, 4.0);
  const std::vector<float> scores = scores_of(p, rows);
  for (std::size_t row = 0; row < 50; ++row) {
    double sum = 0.0;
    for (std::size_t e = 0; e < 300; ++e) sum += std::exp(double{rows[row * 300 + e]});
    for (std::size_t e = 0; e < 300; ++e) {
      const double exact = std::exp(double{rows[row * 300 + e]}) / sum;
      // The difference from the greatest logit is rounded, too: to within 2^-24 of up to 40.
      ASSERT_NEAR(scores[row * 300 + e], exact, 24.0 * 0x1p-23 * exact) << "row " << row << ", expert " << e;
    }
  }
}

TEST(RouteScores, AtTheEndsAreThoseOfTheFunctions) {
  const std::vector<float> logits{-kInfinity, kInfinity, kNan, -0.0f, 0.0f, -3e38f, 3e38f, -88.0f, 1e-40f};
  const moe::Route p{.rows = static_cast<std::int64_t>(logits.size()), .experts = 1, .k = 1, .score = Score::sigmoid};
  const std::vector<float> sigmoid = scores_of(p, logits);
  EXPECT_EQ(sigmoid[0], 0.0f);
  EXPECT_EQ(sigmoid[1], 1.0f);
  EXPECT_TRUE(std::isnan(sigmoid[2]));
  EXPECT_EQ(sigmoid[3], 0.5f);
  EXPECT_EQ(sigmoid[4], 0.5f);
  EXPECT_EQ(sigmoid[5], 0.0f);
  EXPECT_EQ(sigmoid[6], 1.0f);
  EXPECT_NEAR(sigmoid[7], 0.0f, 0x1p-126);
  EXPECT_EQ(sigmoid[8], 0.5f);
  moe::Route q = p;
  q.score = Score::sqrtsoftplus;
  const std::vector<float> root = scores_of(q, logits);
  EXPECT_EQ(root[0], 0.0f);
  EXPECT_EQ(root[1], kInfinity);
  EXPECT_TRUE(std::isnan(root[2]));
  EXPECT_NEAR(root[3], std::sqrt(std::log(2.0)), 1e-7);
  EXPECT_EQ(root[6], std::sqrt(3e38f));
}

}  // namespace
}  // namespace rtopk_test
