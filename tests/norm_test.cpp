// LayerNorm and its gradients on a GPU: against f64, with guarded memory and unusual sizes and values. Plans and
// errors, which need no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <rtopk/gnn/norm.hpp>
#include <rtopk/rtopk.hpp>

#include "device_memory.hpp"
#include "encoding.hpp"
#include "random.hpp"
#include "refusals.hpp"

namespace rtopk_test {

namespace gnn = rtopk::gnn;
namespace {

using rtopk::DeviceKind;
using rtopk::DType;
using rtopk::IndexType;
using Floats = std::vector<float>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A problem with its inputs.
struct Instance {
  gnn::Norm p;
  Floats input, bias, gamma, beta, gradient, values;
  std::vector<std::int64_t> selectors;

  Instance(const gnn::Norm& problem, Random& random) : p(problem) {
    const auto normals = [&random](std::int64_t count, double mean) {
      Floats floats(at(count));
      for (float& x : floats) x = static_cast<float>(mean + random.normal());
      return floats;
    };
    input = normals(p.rows * p.cols, 0.5);
    bias = normals(p.cols, 0.0);
    gamma = normals(p.cols, 1.0);
    beta = normals(p.cols, 0.0);
    gradient = normals(p.rows * p.cols, 0.0);
    values = normals(p.rows * p.k, 0.0);
    std::vector<std::int64_t> columns(at(p.cols));
    std::iota(columns.begin(), columns.end(), std::int64_t{0});
    for (std::int64_t row = 0; row < p.rows; ++row) {
      for (std::int64_t i = 0; i < p.k; ++i) {  // the first k of a random permutation
        std::swap(columns[at(i)], columns[at(random.between(i, p.cols - 1))]);
        selectors.push_back(columns[at(i)]);
      }
    }
  }

  /// dY of a row, in dense form.
  [[nodiscard]] std::vector<double> gradient_of(std::int64_t row) const {
    if (p.term == gnn::NormTerm::gradient) {
      return {gradient.begin() + row * p.cols, gradient.begin() + (row + 1) * p.cols};
    }
    std::vector<double> dense(at(p.cols));
    for (std::int64_t i = row * p.k; i < (row + 1) * p.k; ++i) {
      if (selectors[at(i)] < p.cols) dense[at(selectors[at(i)])] = static_cast<double>(values[at(i)]);
    }
    return dense;
  }
};

struct Results {
  Floats rows, gamma, beta, bias;
  friend bool operator==(const Results&, const Results&) = default;
};

/// A number in f64, and the maximum error in f32.
struct Number {
  double value = 0.0;
  double bound = 0.0;
};

struct Expected {
  std::vector<Number> rows, gamma, beta, bias;
};

/// The error of this many f32 roundings at this magnitude.
Number number(double value, double magnitude, double roundings) {
  return {value, roundings * 0x1p-24 * magnitude + 0x1p-40};
}

Expected expected_of(const Instance& instance) {
  const gnn::Norm& p = instance.p;
  const auto cols = static_cast<double>(p.cols);
  Expected expected{std::vector<Number>(at(p.rows * p.cols)), std::vector<Number>(at(p.cols)),
                    std::vector<Number>(at(p.cols)), std::vector<Number>(at(p.cols))};
  const auto add = [&p](Number& sum, double term, double bound) {
    sum.value += term;
    // Every addition to a sum over rows rounds; the terms bound the magnitude of the partial sums.
    sum.bound += bound + static_cast<double>(p.rows + 8) * 0x1p-24 * std::abs(term);
  };
  for (std::int64_t row = 0; row < p.rows; ++row) {
    std::vector<double> z(at(p.cols));
    double mean = 0.0;
    double largest = 0.0;
    for (std::int64_t c = 0; c < p.cols; ++c) {
      const float x = instance.input[at(row * p.cols + c)];
      z[at(c)] = static_cast<double>(p.biased ? x + instance.bias[at(c)] : x);
      largest = std::max(largest, std::abs(z[at(c)]));
      mean += z[at(c)] / cols;
    }
    double variance = 0.0;
    for (double& x : z) {
      x -= mean;
      variance += x * x / cols;
    }
    const double scale = 1.0 / std::sqrt(variance + static_cast<double>(p.epsilon));
    // Error of a normalized element: its own rounding and that of the row's maximum, scaled; then the sum of squares.
    const auto off = [&](double normal) { return (8.0 * largest * scale + 40.0 * std::abs(normal)) * 0x1p-24; };
    for (double& x : z) x *= scale;
    if (p.term == gnn::NormTerm::rows) {
      for (std::int64_t c = 0; c < p.cols; ++c) {
        const double gamma = instance.gamma[at(c)];
        const double beta = instance.beta[at(c)];
        const double y = z[at(c)] * gamma + beta;
        expected.rows[at(row * p.cols + c)] = number(y, std::abs(z[at(c)] * gamma) + std::abs(beta), 4.0);
        expected.rows[at(row * p.cols + c)].bound += off(z[at(c)]) * std::abs(gamma);
      }
      continue;
    }
    const std::vector<double> dy = instance.gradient_of(row);
    double of_mean = 0.0;
    double of_slope = 0.0;
    double magnitude = 0.0;
    double most_off = 0.0;
    for (std::int64_t c = 0; c < p.cols; ++c) {
      const double weighted = dy[at(c)] * static_cast<double>(instance.gamma[at(c)]);
      of_mean += weighted / cols;
      of_slope += weighted * z[at(c)] / cols;
      magnitude += std::abs(weighted) * (1.0 + std::abs(z[at(c)])) / cols;
      most_off = std::max(most_off, off(z[at(c)]));
    }
    for (std::int64_t c = 0; c < p.cols; ++c) {
      const double normal = z[at(c)];
      const double weighted = dy[at(c)] * static_cast<double>(instance.gamma[at(c)]);
      const double dx = scale * (weighted - of_mean - normal * of_slope);
      const double size = scale * (std::abs(weighted) + magnitude * (1.0 + std::abs(normal)));
      Number& result = expected.rows[at(row * p.cols + c)];
      result = number(dx, size, 60.0);
      result.bound += most_off * size;
      add(expected.gamma[at(c)], dy[at(c)] * normal, off(normal) * std::abs(dy[at(c)]));
      add(expected.beta[at(c)], dy[at(c)], 0.0);
      add(expected.bias[at(c)], dx, result.bound);
    }
  }
  return expected;
}

/// The first result whose error is too large, or that is NaN where a number is expected; empty if there is none.
std::string first_wrong(const char* what, const std::vector<Number>& expected, const Floats& results) {
  if (results.size() != expected.size()) return std::string(what) + ": wrong size";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::abs(static_cast<double>(results[i]) - expected[i].value) <= expected[i].bound) continue;
    return std::string(what) + " " + std::to_string(i) + " is " + std::to_string(results[i]) + ", not " +
           std::to_string(expected[i].value) + " within " + std::to_string(expected[i].bound);
  }
  return "";
}

class NormOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_here(DeviceKind::cuda)) GTEST_SKIP() << "no GPU";
  }

  struct Options {
    std::size_t misalignment = 0;  ///< Elements past a multiple of 64 bytes.
    std::function<void(gnn::NormPlan&)> change = [](gnn::NormPlan&) {};
  };

  /// The results of a run. Fails if the run writes outside of them.
  static Results run(const Instance& instance, const Options& options) {
    const gnn::Norm& p = instance.p;
    gnn::NormPlan plan;
    rtopk::Status status = gnn::make_plan(p, plan);
    EXPECT_TRUE(status.ok()) << status.text();
    options.change(plan);
    const auto memory = [](const Bytes& content, std::size_t misalignment) {
      return DeviceMemory::make(DeviceKind::cuda, content, misalignment);
    };
    const std::size_t shift = options.misalignment * sizeof(float);
    const auto input = memory(encode(instance.input, DType::f32), shift);
    const auto bias = memory(encode(instance.bias, DType::f32), 0);
    const auto gamma = memory(encode(instance.gamma, DType::f32), 0);
    const auto beta = memory(encode(instance.beta, DType::f32), 0);
    const auto gradient = memory(encode(instance.gradient, DType::f32), 0);
    const auto values = memory(encode(instance.values, DType::f32), shift);
    const auto selectors =
        memory(encode(instance.selectors, p.selector_type), options.misalignment * rtopk::size_of(p.selector_type));
    // Poison: detects code that relies on zeros or does not write every result.
    const Bytes column(at(p.cols) * sizeof(float), std::byte{0xff});
    const auto rows = memory(Bytes(at(p.rows * p.cols) * sizeof(float), std::byte{0xff}), 0);
    const auto of_gamma = memory(column, shift);
    const auto of_beta = memory(column, shift);
    const auto of_bias = memory(column, shift);
    const auto workspace = memory(Bytes(plan.workspace_bytes, std::byte{0xff}), 1);
    const auto floats = [](const auto& from) { return static_cast<float*>(from->data()); };
    status = gnn::run(plan,
                      {.input = floats(input),
                       .bias = floats(bias),
                       .gamma = floats(gamma),
                       .beta = floats(beta),
                       .gradient = floats(gradient),
                       .values = floats(values),
                       .selectors = selectors->data(),
                       .result = floats(rows),
                       .gamma_gradient = floats(of_gamma),
                       .beta_gradient = floats(of_beta),
                       .bias_gradient = floats(of_bias)},
                      {workspace->data(), plan.workspace_bytes});
    EXPECT_TRUE(status.ok()) << status.text();
    for (const auto* part : {&rows, &of_gamma, &of_beta, &of_bias, &workspace}) EXPECT_EQ((*part)->damage(), "");
    Results results{decode(rows->content(), DType::f32), {}, {}, {}};
    if (p.term == gnn::NormTerm::rows) {
      EXPECT_EQ(of_gamma->content(), column);
      return results;
    }
    results.gamma = decode(of_gamma->content(), DType::f32);
    results.beta = decode(of_beta->content(), DType::f32);
    if (p.biased) results.bias = decode(of_bias->content(), DType::f32);
    return results;
  }
  static Results run(const Instance& instance) { return run(instance, Options{}); }

  static void expect_right(const Instance& instance, const Options& options) {
    const gnn::Norm& p = instance.p;
    SCOPED_TRACE(testing::Message() << name(p.term) << ", " << p.rows << " rows, " << p.cols << " columns, k " << p.k
                                    << ", " << name(p.selector_type) << ", biased " << p.biased << ", misalignment "
                                    << options.misalignment);
    const Results results = run(instance, options);
    const Expected expected = expected_of(instance);
    EXPECT_EQ(first_wrong("row element", expected.rows, results.rows), "");
    if (p.term == gnn::NormTerm::rows) return;
    EXPECT_EQ(first_wrong("gradient of gamma", expected.gamma, results.gamma), "");
    EXPECT_EQ(first_wrong("gradient of beta", expected.beta, results.beta), "");
    if (p.biased) {
      EXPECT_EQ(first_wrong("gradient of the bias", expected.bias, results.bias), "");
    }
  }
  static void expect_right(const Instance& instance) { expect_right(instance, Options{}); }
};

constexpr gnn::NormTerm kTerms[] = {gnn::NormTerm::rows, gnn::NormTerm::gradient, gnn::NormTerm::compact_gradient};

gnn::Norm problem_of(gnn::NormTerm term, std::int64_t rows, std::int64_t cols, std::int64_t k, bool biased) {
  return {.term = term,
          .rows = rows,
          .cols = cols,
          .k = std::min(k, cols),
          .selector_type = cols > 256 ? IndexType::u16 : IndexType::u8,
          .biased = biased};
}

TEST_F(NormOnGpu, AllWidths) {
  Random random(seed() + 300);
  for (const gnn::NormTerm term : kTerms) {
    for (const std::int64_t cols : {2,   3,   4,   7,   31,  32,  33,  64,  100, 127, 128, 129,  132,  200, 255,
                                    256, 257, 260, 300, 500, 509, 511, 512, 516, 700, 768, 1000, 1020, 1024}) {
      const std::size_t misalignment = cols > 512 ? 0 : at(random.between(0, 3));
      expect_right({problem_of(term, random.between(1, 40), cols, random.between(1, cols), random.coin()), random},
                   {.misalignment = misalignment});
      expect_right({problem_of(term, random.between(1, 40), cols, 32, true), random});
    }
  }
}

TEST_F(NormOnGpu, ManyRows) {
  Random random(seed() + 301);
  for (const gnn::NormTerm term : kTerms) {
    expect_right({problem_of(term, scaled(20011), 256, 32, true), random});
    expect_right({problem_of(term, scaled(9001), 61, 7, true), random});
    Instance wide(problem_of(term, scaled(4003), 200, 100, false), random);
    wide.p.selector_type = IndexType::u16;
    expect_right(wide);
  }
}

TEST_F(NormOnGpu, OneColumnIsItsBeta) {
  Random random(seed() + 302);
  for (const bool biased : {false, true}) {
    const Instance instance(problem_of(gnn::NormTerm::rows, 50, 1, 1, biased), random);
    for (const float y : run(instance).rows) EXPECT_EQ(y, instance.beta[0]);
    for (const gnn::NormTerm term : {gnn::NormTerm::gradient, gnn::NormTerm::compact_gradient}) {
      const Results results = run({problem_of(term, 50, 1, 1, biased), random});
      for (const float dx : results.rows) EXPECT_LE(std::abs(dx), 1e-3f);  // 1 / sqrt(epsilon) times a rounding error
      EXPECT_EQ(results.gamma[0], 0.0f);
    }
  }
}

TEST_F(NormOnGpu, NoRows) {
  Random random(seed() + 303);
  for (const gnn::NormTerm term : kTerms) {
    for (const std::int64_t cols : {40, 1000}) {
      for (const std::size_t misalignment :
           {std::size_t{0}, std::size_t{1}}) {  // without rows, alignment does not matter
        const Instance instance(problem_of(term, 0, cols, 3, true), random);
        const Results results = run(instance, {.misalignment = misalignment});
        if (term == gnn::NormTerm::rows) continue;
        const Floats zeros(at(cols), 0.0f);
        EXPECT_EQ(results.gamma, zeros);
        EXPECT_EQ(results.beta, zeros);
        EXPECT_EQ(results.bias, zeros);
      }
    }
  }
}

TEST_F(NormOnGpu, ConstantRowsAreBeta) {
  Random random(seed() + 304);
  for (const std::int64_t cols : {3, 100, 256, 1000}) {
    for (const float constant : {0.0f, 1.0f, -0.1f, 1234567.0f, 1e30f}) {
      Instance instance(problem_of(gnn::NormTerm::rows, 9, cols, 1, false), random);
      std::fill(instance.input.begin(), instance.input.end(), constant);
      const Floats y = run(instance).rows;
      for (std::int64_t i = 0; i < std::ssize(y); ++i) {
        // The correction of the mean leaves the rounding error of a rounding error.
        const float beta = instance.beta[at(i % cols)];
        EXPECT_NEAR(y[at(i)], beta, 1e-4f) << constant << " in " << cols << " columns";
      }
    }
  }
}

TEST_F(NormOnGpu, SmallDifferencesBetweenLargeElements) {
  Random random(seed() + 305);
  for (const gnn::NormTerm term : kTerms) {
    for (const std::int64_t cols : {100, 256, 1020}) {
      Instance instance(problem_of(term, 20, cols, 20, false), random);
      for (float& x : instance.input) x = 1000.0f + x;
      expect_right(instance);
    }
  }
}

TEST_F(NormOnGpu, NeighbouringNumbersAreToldApart) {
  Random random(seed() + 311);
  for (const std::int64_t cols : {100, 256, 1020}) {
    Instance instance(problem_of(gnn::NormTerm::rows, 50, cols, 1, false), random);
    // The error of a rounded mean exceeds the distance between elements.
    for (float& x : instance.input) x = random.coin() ? 1e6f : std::nextafter(1e6f, 2e6f);
    const Floats y = run(instance).rows;
    const Expected expected = expected_of(instance);
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected.rows[i].value, 1e-3) << i;
  }
}

TEST_F(NormOnGpu, HugeElementsAreFinite) {
  Random random(seed() + 306);
  for (const gnn::NormTerm term : kTerms) {
    for (const float factor : {1e15f, 1e25f, 1e37f}) {
      Instance instance(problem_of(term, 20, 256, 20, false), random);
      for (float& x : instance.input) x *= factor;
      const Results results = run(instance);
      for (const Floats* part : {&results.rows, &results.gamma, &results.beta}) {
        for (const float x : *part) EXPECT_TRUE(std::isfinite(x)) << name(term) << " " << factor;
      }
    }
  }
}

TEST_F(NormOnGpu, WhatIsNotANumberStaysInItsRow) {
  Random random(seed() + 307);
  for (const gnn::NormTerm term : kTerms) {
    Instance instance(problem_of(term, 40, 256, 20, true), random);
    const Floats before = run(instance).rows;
    instance.input[at(7 * 256 + 30)] = NAN;
    instance.input[at(21 * 256)] = INFINITY;
    const Floats after = run(instance).rows;
    for (std::int64_t i = 0; i < std::ssize(after); ++i) {
      if (i / 256 == 7 || i / 256 == 21) {
        EXPECT_TRUE(std::isnan(after[at(i)])) << i;
      } else {
        EXPECT_EQ(after[at(i)], before[at(i)]) << i;
      }
    }
  }
}

TEST_F(NormOnGpu, SelectorsBeyondTheColumnsBringNothing) {
  Random random(seed() + 308);
  for (const std::int64_t cols : {200, 600}) {
    Instance instance(problem_of(gnn::NormTerm::compact_gradient, 50, cols, 80, true), random);
    for (std::int64_t i = 0; i < std::ssize(instance.selectors); i += 3) {
      instance.selectors[at(i)] = cols == 200 ? random.between(200, 255) : random.between(600, 65535);
    }
    expect_right(instance);
  }
}

TEST_F(NormOnGpu, ResultsRepeatBitForBit) {
  Random random(seed() + 309);
  for (const gnn::NormTerm term : kTerms) {
    const Instance instance(problem_of(term, scaled(5000), 256, 32, true), random);
    const Results first = run(instance);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(run(instance), first);
  }
}

TEST_F(NormOnGpu, ChangedPlansAreRight) {
  Random random(seed() + 310);
  for (const gnn::NormTerm term : kTerms) {
    for (const std::int64_t blocks : {1, 3, 50, 2000}) {
      Options options;
      options.change = [blocks](gnn::NormPlan& plan) {
        if (plan.workspace_bytes > 0) {
          plan.workspace_bytes = static_cast<std::size_t>(blocks * 3 * plan.problem.cols) * sizeof(float) + 255;
        }
        plan.blocks = blocks;
      };
      expect_right({problem_of(term, 1000, 96, 32, true), random}, options);
    }
  }
}

constexpr rtopk::Traits kTraits{.device = {DeviceKind::cuda, 0},
                                .compute_capability = 90,
                                .multiprocessors = 132,
                                .shared_bytes_per_block = 232448};

TEST(NormRefusals, Problems) {
  const gnn::Norm sound = problem_of(gnn::NormTerm::compact_gradient, 100, 64, 8, true);
  gnn::NormPlan plan;
  const auto refused = [&](const char* argument, const std::function<void(gnn::Norm&)>& change) {
    gnn::Norm problem = sound;
    change(problem);
    rtopk::Traits traits = kTraits;
    traits.device = problem.device;
    expect_refused(gnn::make_plan(problem, traits, plan), argument);
    EXPECT_EQ(plan, gnn::NormPlan{}) << argument;
  };
  refused("device is not a GPU", [](gnn::Norm& p) { p.device = {}; });
  refused("device.ordinal", [](gnn::Norm& p) { p.device.ordinal = -1; });
  refused("term", [](gnn::Norm& p) { p.term = static_cast<gnn::NormTerm>(3); });
  refused("rows", [](gnn::Norm& p) { p.rows = -1; });
  refused("rows", [](gnn::Norm& p) { p.rows = std::int64_t{1} << 31; });
  refused("cols", [](gnn::Norm& p) { p.cols = 0; });
  refused("cols", [](gnn::Norm& p) { p.cols = 1028; });
  refused("cols", [](gnn::Norm& p) { p.cols = 513; });
  refused("k", [](gnn::Norm& p) { p.k = 0; });
  refused("k", [](gnn::Norm& p) { p.k = 65; });
  refused("selector_type", [](gnn::Norm& p) { p.selector_type = IndexType::i32; });
  refused("selector_type", [](gnn::Norm& p) { p.cols = 257; });
  refused("epsilon", [](gnn::Norm& p) { p.epsilon = -1e-5f; });
  refused("epsilon", [](gnn::Norm& p) { p.epsilon = NAN; });
  rtopk::Traits other = kTraits;
  other.device.ordinal = 1;
  expect_refused(gnn::make_plan(sound, other, plan), "traits.device");
  EXPECT_EQ(make_plan(gnn::Norm{.rows = 1, .cols = 8, .device = {}}, plan).code(), rtopk::StatusCode::not_supported);
}

TEST(NormRefusals, CallsAndPlans) {
  const gnn::Norm problem = problem_of(gnn::NormTerm::compact_gradient, 3, 8, 2, true);
  gnn::NormPlan plan;
  ASSERT_TRUE(gnn::make_plan(problem, kTraits, plan).ok());
  // Every call here fails before a device is needed.
  alignas(16) static std::byte memory[10][256];
  const auto floats = [](int i) { return reinterpret_cast<float*>(memory[i]); };
  const rtopk::gnn::NormCall sound{.input = floats(0),
                                   .bias = floats(1),
                                   .gamma = floats(2),
                                   .values = floats(3),
                                   .selectors = memory[4],
                                   .result = floats(5),
                                   .gamma_gradient = floats(6),
                                   .beta_gradient = floats(7),
                                   .bias_gradient = floats(8)};
  std::vector<std::byte> space(plan.workspace_bytes);
  const rtopk::Workspace workspace{space.data(), space.size()};
  const auto refused = [&](const char* argument, const std::function<void(rtopk::gnn::NormCall&)>& change) {
    rtopk::gnn::NormCall call = sound;
    change(call);
    expect_refused(gnn::run(plan, call, workspace), argument);
  };
  refused("input", [](auto& call) { call.input = nullptr; });
  refused("bias", [](auto& call) { call.bias = nullptr; });
  refused("gamma", [](auto& call) { call.gamma = nullptr; });
  refused("values", [](auto& call) { call.values = nullptr; });
  refused("selectors", [](auto& call) { call.selectors = nullptr; });
  refused("result", [](auto& call) { call.result = nullptr; });
  refused("gamma_gradient", [](auto& call) { call.gamma_gradient = nullptr; });
  refused("beta_gradient", [](auto& call) { call.beta_gradient = nullptr; });
  refused("bias_gradient", [](auto& call) { call.bias_gradient = nullptr; });
  refused("input", [](auto& call) { call.input = reinterpret_cast<const float*>(memory[0] + 2); });
  refused("result overlaps input", [&](auto& call) { call.result = floats(0) + 4; });
  refused("beta_gradient overlaps gamma_gradient", [&](auto& call) { call.beta_gradient = call.gamma_gradient; });
  expect_refused(gnn::run(plan, sound, {}), "workspace");
  expect_refused(gnn::run(plan, sound, {space.data(), space.size() - 1}), "workspace");

  const auto refused_plan = [&](const char* argument, const std::function<void(gnn::NormPlan&)>& change) {
    gnn::NormPlan changed = plan;
    change(changed);
    expect_refused(gnn::run(changed, sound, workspace), argument);
  };
  gnn::NormPlan wide;
  ASSERT_TRUE(gnn::make_plan(problem_of(gnn::NormTerm::rows, 0, 516, 2, false), kTraits, wide).ok());
  rtopk::gnn::NormCall misaligned = sound;
  misaligned.beta = reinterpret_cast<const float*>(memory[9] + 4);
  expect_refused(gnn::run(wide, misaligned), "beta");
  refused_plan("plan.blocks", [](auto& p) { p.blocks = 0; });
  refused_plan("plan.blocks", [](auto& p) { p.blocks = (1 << 20) + 1; });
  refused_plan("plan.threads", [](auto& p) { p.threads = 32; });
  refused_plan("plan.threads", [](auto& p) { p.blocks += 1; });
  refused_plan("plan.threads", [](auto& p) { p.shared_bytes = 0; });
  refused_plan("cols", [](auto& p) { p.problem.cols = 0; });
}

TEST(NormPlans, TakeNoMoreBlocksThanThereIsWork) {
  for (const gnn::NormTerm term : kTerms) {
    for (const std::int64_t rows : {0, 1, 9, 1000000}) {
      gnn::NormPlan plan;
      ASSERT_TRUE(gnn::make_plan(problem_of(term, rows, 256, 32, true), kTraits, plan).ok());
      EXPECT_GE(plan.blocks, 1);
      EXPECT_LE((plan.blocks - 1) * plan.threads / 32, rows);
      EXPECT_EQ(plan.workspace_bytes == 0, term == gnn::NormTerm::rows);
      if (rows == 1000000) {
        EXPECT_GE(plan.blocks, kTraits.multiprocessors);
      }
    }
  }
}

}  // namespace
}  // namespace rtopk_test
