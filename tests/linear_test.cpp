// Dense linear layers on a GPU: against f64, with unusual sizes and values. Plans and errors, which need no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <rtopk/rtopk.hpp>

#include "internal/linear.hpp"

#include "device_memory.hpp"
#include "encoding.hpp"
#include "random.hpp"
#include "refusals.hpp"

namespace rtopk_test {

namespace gnn = rtopk::gnn;
namespace {

using rtopk::DeviceKind;
using rtopk::DType;
using Floats = std::vector<float>;

constexpr gnn::LinearTerm kTerms[] = {gnn::LinearTerm::product, gnn::LinearTerm::input_gradient,
                                      gnn::LinearTerm::matrix_gradient};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Floats normals(std::int64_t count, double mean, Random& random) {
  Floats floats(at(count));
  for (float& x : floats) x = static_cast<float>(mean + random.normal());
  return floats;
}

/// The two factors of one product.
struct Factors {
  double a, b;
};

/// A problem with its inputs.
struct Instance {
  gnn::Linear p;
  Floats input, matrix, bias, gradient;

  Instance(const gnn::Linear& problem, Random& random, double mean = 0.0)
      : p(problem),
        input(normals(p.rows * p.inputs, mean, random)),
        matrix(normals(p.outputs * p.inputs, mean, random)),
        bias(normals(p.outputs, 0.0, random)),
        gradient(normals(p.rows * p.outputs, mean, random)) {}

  [[nodiscard]] std::int64_t result_rows() const {
    return p.term == gnn::LinearTerm::matrix_gradient ? p.outputs : p.rows;
  }
  [[nodiscard]] std::int64_t result_cols() const { return p.term == gnn::LinearTerm::product ? p.outputs : p.inputs; }
  [[nodiscard]] std::int64_t depth() const {
    return p.term == gnn::LinearTerm::product          ? p.inputs
           : p.term == gnn::LinearTerm::input_gradient ? p.outputs
                                                       : p.rows;
  }
  /// The factors of term i of the sum at (row, col).
  [[nodiscard]] Factors factors(std::int64_t row, std::int64_t col, std::int64_t i) const {
    switch (p.term) {
      case gnn::LinearTerm::product: return {input[at(row * p.inputs + i)], matrix[at(col * p.inputs + i)]};
      case gnn::LinearTerm::input_gradient: return {gradient[at(row * p.outputs + i)], matrix[at(i * p.inputs + col)]};
      case gnn::LinearTerm::matrix_gradient: break;
    }
    return {gradient[at(i * p.outputs + row)], input[at(i * p.inputs + col)]};
  }
};

/// The first result whose distance to the f64 sum exceeds the error of f32 sums of this length; empty if there is none.
/// Checks all elements of a small result, and the edges and a sample of a large one.
std::string first_wrong(const Instance& instance, const Floats& results, Random& random) {
  const std::int64_t rows = instance.result_rows();
  const std::int64_t cols = instance.result_cols();
  if (std::ssize(results) != rows * cols) return "wrong size";
  const auto wrong = [&](std::int64_t row, std::int64_t col) -> std::string {
    double sum = 0.0;
    double magnitude = 0.0;
    double lost = 0.0;
    const auto add = [&](double term) {
      sum += term;
      magnitude += std::abs(term);
    };
    for (std::int64_t i = 0; i < instance.depth(); ++i) {
      const auto [a, b] = instance.factors(row, col, i);
      add(a * b);
      lost += 0x1p-126 * (std::abs(a) + std::abs(b));
    }
    if (instance.p.term == gnn::LinearTerm::product && instance.p.biased)
      add(static_cast<double>(instance.bias[at(col)]));
    // One rounding per 16 terms, and a few for the products and the ends.
    const double bound = (static_cast<double>(instance.depth()) / 16.0 + 16.0) * 0x1p-24 * magnitude + lost;
    const auto result = static_cast<double>(results[at(row * cols + col)]);
    if (std::abs(result - sum) <= bound) return "";
    return std::string("element ") + std::to_string(row) + ", " + std::to_string(col) + " is " +
           std::to_string(result) + ", not " + std::to_string(sum) + " within " + std::to_string(bound);
  };
  const bool all = rows * cols * instance.depth() <= 3'000'000;
  const std::int64_t count = all ? rows * cols : 2000;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = all ? i / cols : i % 9 == 0 ? rows - 1 : random.between(0, rows - 1);
    const std::int64_t col = all ? i % cols : i % 7 == 0 ? cols - 1 : random.between(0, cols - 1);
    if (std::string text = wrong(row, col); !text.empty()) return text;
  }
  return "";
}

class LinearOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_here(DeviceKind::cuda)) GTEST_SKIP() << "no GPU";
    gnn::LinearPlan plan;
    const rtopk::Status status = gnn::make_plan({.rows = 1, .inputs = 4, .outputs = 4}, plan);
    if (status.code() == rtopk::StatusCode::not_supported) GTEST_SKIP() << status.text();
  }

  /// The result of a run. Fails if the run writes outside of it.
  static Floats run(
      const Instance& instance, const std::function<void(gnn::LinearPlan&)>& change = [](gnn::LinearPlan&) {}) {
    gnn::LinearPlan plan;
    rtopk::Status status = gnn::make_plan(instance.p, plan);
    EXPECT_TRUE(status.ok()) << status.text();
    change(plan);
    const auto memory = [](const Bytes& content, std::size_t misalignment = 0) {
      return DeviceMemory::make(DeviceKind::cuda, content, misalignment);
    };
    // 16 bytes past a multiple of 64: the minimum alignment.
    const auto input = memory(encode(instance.input, DType::f32), 16);
    const auto matrix = memory(encode(instance.matrix, DType::f32), 16);
    const auto bias = memory(encode(instance.bias, DType::f32), 16);
    const auto gradient = memory(encode(instance.gradient, DType::f32), 16);
    // Poison: detects code that relies on zeros or does not write every result.
    const auto result =
        memory(Bytes(at(instance.result_rows() * instance.result_cols()) * sizeof(float), std::byte{0xff}), 16);
    const auto workspace = memory(Bytes(plan.workspace_bytes, std::byte{0xff}), 1);
    const auto floats = [](const auto& from) { return static_cast<float*>(from->data()); };
    status = gnn::run(plan,
                      {.input = floats(input),
                       .matrix = floats(matrix),
                       .bias = floats(bias),
                       .gradient = floats(gradient),
                       .result = floats(result)},
                      {workspace->data(), plan.workspace_bytes});
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(result->damage(), "");
    EXPECT_EQ(workspace->damage(), "");
    return decode(result->content(), DType::f32);
  }

  static void expect_right(
      const Instance& instance, Random& random,
      const std::function<void(gnn::LinearPlan&)>& change = [](gnn::LinearPlan&) {}) {
    const gnn::Linear& p = instance.p;
    SCOPED_TRACE(testing::Message() << name(p.term) << ", " << p.rows << " rows, " << p.inputs << " inputs, "
                                    << p.outputs << " outputs, biased " << p.biased);
    EXPECT_EQ(first_wrong(instance, run(instance, change), random), "");
  }
};

gnn::Linear problem_of(gnn::LinearTerm term, std::int64_t rows, std::int64_t inputs, std::int64_t outputs,
                       bool biased = false) {
  return {.term = term, .rows = rows, .inputs = inputs, .outputs = outputs, .biased = biased};
}

TEST_F(LinearOnGpu, AllSizes) {
  Random random(seed() + 400);
  for (const gnn::LinearTerm term : kTerms) {
    // Around multiples of 32, and of the tiles of 64 and 128.
    for (const std::int64_t size : {4, 8, 12, 28, 32, 36, 60, 64, 68, 100, 124, 128, 132, 252, 256, 260}) {
      const std::int64_t other = 4 * random.between(1, 70);
      expect_right({problem_of(term, random.between(1, 300), size, other, random.coin()), random}, random);
      expect_right({problem_of(term, random.between(1, 300), other, size, random.coin()), random}, random);
      expect_right({problem_of(term, size + random.between(-1, 1), 36, 132, true), random}, random);
    }
  }
}

TEST_F(LinearOnGpu, ManyRows) {
  Random random(seed() + 401);
  for (const gnn::LinearTerm term : kTerms) {
    expect_right({problem_of(term, scaled(50021), 256, 256, true), random}, random);
    expect_right({problem_of(term, scaled(20011), 500, 64), random}, random);
    // Positive terms, whose rounding errors do not cancel.
    expect_right({problem_of(term, scaled(30007), 256, 128), random, 3.0}, random);
  }
}

TEST_F(LinearOnGpu, WholeNumbersAreExact) {
  Random random(seed() + 402);
  for (const gnn::LinearTerm term : kTerms) {
    Instance instance(problem_of(term, 200, 132, 68, true), random);
    for (Floats* part : {&instance.input, &instance.matrix, &instance.bias, &instance.gradient}) {
      for (float& x : *part) x = static_cast<float>(random.between(-100, 100));
    }
    const Floats results = run(instance);
    for (std::int64_t i = 0; i < std::ssize(results); ++i) {
      double sum = term == gnn::LinearTerm::product ? static_cast<double>(instance.bias[at(i % 68)]) : 0.0;
      for (std::int64_t j = 0; j < instance.depth(); ++j) {
        const auto [a, b] = instance.factors(i / instance.result_cols(), i % instance.result_cols(), j);
        sum += a * b;
      }
      ASSERT_EQ(static_cast<double>(results[at(i)]), sum) << name(term) << " " << i;
    }
  }
}

TEST_F(LinearOnGpu, AllBitsOfAFactorCount) {
  Random random(seed() + 403);
  for (const gnn::LinearTerm term : kTerms) {
    Instance instance(problem_of(term, 64, 64, 64), random);
    // One factor of every sum is a power of two, the others are zero: every result is a scaled factor.
    Floats& ones = term == gnn::LinearTerm::product ? instance.matrix : instance.gradient;
    std::fill(ones.begin(), ones.end(), 0.0f);
    for (std::int64_t i = 0; i < 64; ++i) ones[at(i * 64 + i)] = 0.25f;
    const Floats& factors = term == gnn::LinearTerm::input_gradient ? instance.matrix : instance.input;
    const Floats results = run(instance);
    for (std::size_t i = 0; i < results.size(); ++i)
      ASSERT_EQ(results[i], 0.25f * factors[i]) << name(term) << " " << i;
  }
}

TEST_F(LinearOnGpu, FactorsOfAllMagnitudes) {
  Random random(seed() + 404);
  for (const gnn::LinearTerm term : kTerms) {
    // Parts of the smaller ones are subnormal.
    for (const auto& [left, right] : std::vector<std::array<float, 2>>{
             {1e30f, 1e-30f}, {1e-30f, 1e30f}, {3e37f, 1e-3f}, {1e-33f, 1e30f}, {1e-37f, 1e35f}, {1e18f, 1e18f}}) {
      Instance instance(problem_of(term, 100, 64, 64), random);
      for (float& x : term == gnn::LinearTerm::product ? instance.input : instance.gradient) x *= left;
      for (float& x : term == gnn::LinearTerm::matrix_gradient ? instance.input : instance.matrix) x *= right;
      expect_right(instance, random);
    }
  }
}

TEST_F(LinearOnGpu, WhatIsNotANumberStaysInItsSums) {
  Random random(seed() + 405);
  for (const float odd : {NAN, INFINITY, -INFINITY}) {
    Instance instance(problem_of(gnn::LinearTerm::product, 150, 100, 132), random);
    const Floats before = run(instance);
    instance.input[at(70 * 100 + 33)] = odd;
    const Floats after = run(instance);
    for (std::int64_t i = 0; i < std::ssize(after); ++i) {
      if (i / 132 == 70) {
        EXPECT_TRUE(std::isnan(after[at(i)])) << i;
      } else {
        EXPECT_EQ(after[at(i)], before[at(i)]) << i;
      }
    }
  }
}

TEST_F(LinearOnGpu, NoRows) {
  Random random(seed() + 406);
  EXPECT_TRUE(run({problem_of(gnn::LinearTerm::product, 0, 8, 8, true), random}).empty());
  EXPECT_TRUE(run({problem_of(gnn::LinearTerm::input_gradient, 0, 8, 8), random}).empty());
  EXPECT_EQ(run({problem_of(gnn::LinearTerm::matrix_gradient, 0, 8, 12), random}), Floats(96, 0.0f));
}

TEST_F(LinearOnGpu, ResultsRepeatBitForBit) {
  Random random(seed() + 407);
  for (const gnn::LinearTerm term : kTerms) {
    const Instance instance(problem_of(term, scaled(20000), 256, 256, true), random);
    const Floats first = run(instance);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(run(instance), first);
  }
}

TEST_F(LinearOnGpu, ChangedPlansAreRight) {
  Random random(seed() + 408);
  for (const std::int64_t parts : {1, 2, 7, 30, 32}) {
    expect_right(
        {problem_of(gnn::LinearTerm::matrix_gradient, 1001, 100, 36), random}, random, [parts](gnn::LinearPlan& plan) {
          plan.parts = parts;
          plan.workspace_bytes = parts == 1 ? 0 : static_cast<std::size_t>(parts * 100 * 36) * sizeof(float) + 255;
        });
  }
}

constexpr rtopk::Traits kTraits{.device = {DeviceKind::cuda, 0},
                                .compute_capability = 90,
                                .multiprocessors = 132,
                                .shared_bytes_per_block = 232448};

TEST(LinearRefusals, Problems) {
  const gnn::Linear sound = problem_of(gnn::LinearTerm::product, 100, 64, 32);
  gnn::LinearPlan plan;
  const auto refused = [&](const char* argument, const std::function<void(gnn::Linear&)>& change) {
    gnn::Linear problem = sound;
    change(problem);
    rtopk::Traits traits = kTraits;
    traits.device = problem.device;
    expect_refused(gnn::make_plan(problem, traits, plan), argument);
    EXPECT_EQ(plan, gnn::LinearPlan{}) << argument;
  };
  refused("device is not a GPU", [](gnn::Linear& p) { p.device = {}; });
  refused("device.ordinal", [](gnn::Linear& p) { p.device.ordinal = -1; });
  refused("term", [](gnn::Linear& p) { p.term = static_cast<gnn::LinearTerm>(3); });
  refused("rows", [](gnn::Linear& p) { p.rows = -1; });
  refused("rows", [](gnn::Linear& p) { p.rows = std::int64_t{1} << 31; });
  for (const std::int64_t columns : {-4, 0, 2, 31, 65540}) {
    refused("inputs", [columns](gnn::Linear& p) { p.inputs = columns; });
    refused("outputs", [columns](gnn::Linear& p) { p.outputs = columns; });
  }
  rtopk::Traits other = kTraits;
  other.device.ordinal = 1;
  expect_refused(gnn::make_plan(sound, other, plan), "traits.device");
  refused("rows", [](gnn::Linear& p) {
    p.rows = 0x7fffffff;
    p.outputs = 65536;
  });
  for (const int capability : {80, 89, 100, 120}) {
    rtopk::Traits traits = kTraits;
    traits.compute_capability = capability;
    expect_refused(gnn::make_plan(sound, traits, plan), "traits have compute_capability");
  }
}

TEST(LinearRefusals, CallsAndPlans) {
  gnn::LinearPlan plan;
  // Every call here fails before a device is needed.
  alignas(16) static std::byte memory[5][1024];
  const auto floats = [](int i) { return reinterpret_cast<float*>(memory[i]); };
  const rtopk::gnn::LinearCall sound{
      .input = floats(0), .matrix = floats(1), .bias = floats(2), .gradient = floats(3), .result = floats(4)};
  const auto refused = [&](gnn::LinearTerm term, const char* argument,
                           const std::function<void(rtopk::gnn::LinearCall&)>& change) {
    ASSERT_TRUE(gnn::make_plan(problem_of(term, 3, 8, 8, true), kTraits, plan).ok());
    rtopk::gnn::LinearCall call = sound;
    change(call);
    expect_refused(gnn::run(plan, call), argument);
  };
  refused(gnn::LinearTerm::product, "input", [](auto& call) { call.input = nullptr; });
  refused(gnn::LinearTerm::product, "matrix", [](auto& call) { call.matrix = nullptr; });
  refused(gnn::LinearTerm::product, "bias", [](auto& call) { call.bias = nullptr; });
  refused(gnn::LinearTerm::product, "result", [](auto& call) { call.result = nullptr; });
  refused(gnn::LinearTerm::product, "input", [](auto& call) { call.input += 1; });
  refused(gnn::LinearTerm::product, "result overlaps input", [&](auto& call) { call.result = floats(0) + 4; });
  refused(gnn::LinearTerm::input_gradient, "gradient", [](auto& call) { call.gradient = nullptr; });
  refused(gnn::LinearTerm::input_gradient, "matrix", [](auto& call) { call.matrix += 2; });
  refused(gnn::LinearTerm::matrix_gradient, "gradient", [](auto& call) { call.gradient = nullptr; });
  refused(gnn::LinearTerm::matrix_gradient, "input", [](auto& call) { call.input = nullptr; });

  const auto refused_plan = [&](const char* argument, const std::function<void(gnn::LinearPlan&)>& change) {
    gnn::LinearPlan changed;
    ASSERT_TRUE(gnn::make_plan(problem_of(gnn::LinearTerm::matrix_gradient, 10000, 8, 8), kTraits, changed).ok());
    EXPECT_GT(changed.parts, 1);
    change(changed);
    expect_refused(gnn::run(changed, sound), argument);
  };
  refused_plan("workspace", [](auto&) {});
  refused_plan("plan.parts", [](auto& p) { p.parts = 0; });
  refused_plan("plan.parts", [](auto& p) { p.parts = 314; });
  refused_plan("plan.workspace_bytes", [](auto& p) { p.parts += 1; });
  refused_plan("plan.parts", [](auto& p) { p.problem.term = gnn::LinearTerm::product; });
  refused_plan("inputs", [](auto& p) { p.problem.inputs = 0; });

  gnn::Linear huge = problem_of(gnn::LinearTerm::product, 0x7fffffff, 4, 65536);
  EXPECT_EQ(gnn::make_plan(huge, kTraits, plan).code(), rtopk::StatusCode::not_supported);
  refused_plan("rows", [&](auto& p) { p.problem = huge; });
}

TEST(LinearPlans, PartsHaveWorkAndFillTheGpu) {
  for (const std::int64_t rows : {0, 1, 255, 5000, 89250, 0x7fffffff}) {
    gnn::LinearPlan plan;
    ASSERT_TRUE(gnn::make_plan(problem_of(gnn::LinearTerm::matrix_gradient, rows, 256, 256), kTraits, plan).ok());
    EXPECT_GE(plan.parts, 1);
    EXPECT_LE((plan.parts - 1) * 256, rows);
    EXPECT_LE(plan.parts, 2 * kTraits.multiprocessors);
    EXPECT_EQ(plan.workspace_bytes == 0, plan.parts == 1);
    if (rows >= 89250) {
      EXPECT_EQ(plan.parts, 33);
    }
    ASSERT_TRUE(gnn::make_plan(problem_of(gnn::LinearTerm::product, rows, 256, 256), kTraits, plan).ok());
    EXPECT_EQ(plan.parts, 1);
  }
}

}  // namespace
}  // namespace rtopk_test
