// Products with CBSR rows on every device of this machine: against f64 sums, with guarded memory and any number of
// threads or blocks; plans for GPUs that need not exist here; and errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <rtopk/gnn/product.hpp>
#include <rtopk/rtopk.hpp>

#include "encoding.hpp"
#include "on_device.hpp"
#include "random.hpp"
#include "refusals.hpp"

namespace rtopk_test {

namespace gnn = rtopk::gnn;
namespace {

using rtopk::DType;
using rtopk::IndexType;

const std::vector<gnn::ProductTerm> kTerms{gnn::ProductTerm::product, gnn::ProductTerm::values_gradient,
                                           gnn::ProductTerm::matrix_gradient};

std::vector<float> random_floats(std::int64_t count, Random& random) {
  std::vector<float> floats(static_cast<std::size_t>(count));
  for (float& x : floats) x = static_cast<float>(random.between(-1000, 1000)) / 256.0f;
  return floats;
}

struct Sum {
  double value = 0.0;
  double magnitude = 0.0;
  void add(double x) {
    value += x;
    magnitude += std::abs(x);
  }
};

struct Instance {
  gnn::Product p;
  std::vector<std::int64_t> selectors;
  std::vector<float> values, matrix, gradient, before;

  Instance(const gnn::Product& problem, Random& random) : p(problem) {
    values = random_floats(p.rows * p.k, random);
    matrix = random_floats(p.cols * p.width, random);
    gradient = random_floats(p.rows * p.width, random);
    before = random_floats(results(), random);
    const std::int64_t named = p.selector_type == IndexType::u8 ? 256 : 65536;
    for (std::int64_t row = 0; row < p.rows; ++row) {
      std::int64_t column = -1;
      for (std::int64_t i = 0; i < p.k; ++i) {
        column = random.between(column + 1, p.cols - p.k + i);
        const bool beyond = i == p.k - 1 && p.cols < named && random.between(0, 4) == 0;
        selectors.push_back(beyond ? random.between(p.cols, named - 1) : column);
      }
    }
  }

  [[nodiscard]] std::int64_t results() const {
    return p.term == gnn::ProductTerm::product           ? p.rows * p.width
           : p.term == gnn::ProductTerm::values_gradient ? p.rows * p.k
                                                         : p.cols * p.width;
  }

  [[nodiscard]] std::vector<Sum> expected() const {
    std::vector<Sum> sums(static_cast<std::size_t>(results()));
    if (p.term == gnn::ProductTerm::product) {
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add(before[i]);
    }
    for (std::int64_t row = 0; row < p.rows; ++row) {
      for (std::int64_t i = row * p.k; i < (row + 1) * p.k; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (selectors[at] >= p.cols) continue;
        for (std::int64_t col = 0; col < p.width; ++col) {
          const auto of_row = static_cast<std::size_t>(row * p.width + col);
          const auto of_matrix = static_cast<std::size_t>(selectors[at] * p.width + col);
          const double value = values[at];
          if (p.term == gnn::ProductTerm::product) sums[of_row].add(value * matrix[of_matrix]);
          if (p.term == gnn::ProductTerm::values_gradient) sums[at].add(double{gradient[of_row]} * matrix[of_matrix]);
          if (p.term == gnn::ProductTerm::matrix_gradient) sums[of_matrix].add(value * gradient[of_row]);
        }
      }
    }
    return sums;
  }
};

rtopk::Traits traits_with(std::int32_t threads) {
  rtopk::Traits traits;
  EXPECT_TRUE(rtopk::query_traits(rtopk::Device{}, traits).ok());
  traits.threads = threads;
  return traits;
}

class Products : public OnDevice {
 protected:
  struct Options {
    std::int32_t threads = 1;
    std::size_t misalignment = 4;  ///< Aligned to a float, and no better.
    std::function<void(gnn::ProductPlan&)> change = [](gnn::ProductPlan&) {};
  };

  /// The result of a run. Fails if the run writes outside of it.
  [[nodiscard]] static std::vector<float> run(const Instance& instance, const Options& options) {
    auto plan = plan_of<gnn::ProductPlan>(instance.p, options.threads);
    options.change(plan);
    const auto floats = [&](const std::vector<float>& content) {
      return memory(encode(content, DType::f32), options.misalignment);
    };
    const auto values = floats(instance.values);
    const auto selectors = memory(encode(instance.selectors, instance.p.selector_type), options.misalignment);
    const auto matrix = floats(instance.matrix);
    const auto gradient = floats(instance.gradient);
    const auto result = floats(instance.before);
    const auto workspace = memory(Bytes(plan.workspace_bytes, std::byte{0xff}), 1);
    const rtopk::Status status = gnn::run(plan,
                                          {.values = static_cast<float*>(values->data()),
                                           .selectors = selectors->data(),
                                           .matrix = static_cast<float*>(matrix->data()),
                                           .gradient = static_cast<float*>(gradient->data()),
                                           .result = static_cast<float*>(result->data())},
                                          {workspace->data(), plan.workspace_bytes});
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(result->damage(), "") << "result";
    EXPECT_EQ(workspace->damage(), "") << "workspace";
    return decode(result->content(), DType::f32);
  }

  static void expect_right(const Instance& instance, const std::vector<float>& results) {
    const gnn::Product& p = instance.p;
    SCOPED_TRACE(testing::Message() << name(p.term) << ", " << p.rows << " rows, " << p.cols << " columns, k " << p.k
                                    << ", width " << p.width << ", " << name(p.selector_type));
    const std::vector<Sum> expected = instance.expected();
    const double terms = static_cast<double>(std::max({p.rows, p.k, p.width}) + 4);
    ASSERT_EQ(results.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(results[i], expected[i].value, terms * 0x1p-24 * expected[i].magnitude) << "result " << i;
    }
  }
};

TEST_P(Products, AreRightWithAnyNumberOfThreads) {
  Random random(307);
  for (const gnn::ProductTerm term : kTerms) {
    for (const std::int64_t width : {1, 7, 16, 45, 100, 256}) {
      for (const std::int64_t rows : {0, 1, 13, 600}) {
        for (const bool wide : {false, true}) {
          const std::int64_t cols = wide ? 300 : random.between(1, 256);
          const Instance instance({.term = term,
                                   .rows = rows,
                                   .cols = cols,
                                   .k = random.between(1, std::min<std::int64_t>(cols, 40)),
                                   .width = width,
                                   .selector_type = wide ? IndexType::u16 : IndexType::u8},
                                  random);
          const std::vector<float> results = run(instance, {});
          expect_right(instance, results);
          EXPECT_EQ(run(instance, {.threads = 3}), results);
          EXPECT_EQ(run(instance, {.threads = 64}), results);
        }
      }
    }
  }
}

TEST_P(Products, InBlocksOfAnySizeAreRight) {
  if (GetParam() != rtopk::DeviceKind::cpu) GTEST_SKIP() << "of a GPU, ChangedPlansAreRight";
  Random random(347);
  for (const gnn::ProductTerm term : kTerms) {
    const Instance instance({.term = term, .rows = 100, .cols = 30, .k = 7, .width = 45}, random);
    const auto change = [](gnn::ProductPlan& plan) {
      plan.threads = 4;
      plan.rows_per_worker = plan.cols_per_worker = std::numeric_limits<std::int64_t>::max();
    };
    expect_right(instance, run(instance, {.change = change}));
  }
}

TEST_P(Products, OfManyShapesAreRightWhereverTheyLie) {
  Random random(seed() + 311);
  for (std::int64_t i = 0; i < scaled(60); ++i) {
    // The last ones do not fit in shared memory, or only a few columns at a time.
    const std::int64_t cols = random.pick(std::vector<std::int64_t>{1, 2, 40, 256, 300, 520, 1100, 2500});
    const Instance instance({.term = random.pick(kTerms),
                             .rows = random.between(1, 300),
                             .cols = cols,
                             .k = random.between(1, std::min<std::int64_t>(cols, random.coin() ? 40 : 200)),
                             .width = random.coin() ? 4 * random.between(1, 50) : random.between(1, 140),
                             .selector_type = cols > 256 || random.coin() ? IndexType::u16 : IndexType::u8},
                            random);
    const Options options{.misalignment = static_cast<std::size_t>(4 * random.between(0, 4))};
    const std::vector<float> results = run(instance, options);
    expect_right(instance, results);
    EXPECT_EQ(run(instance, options), results) << "it does not repeat";
  }
}

TEST_P(Products, OfOneColumnThatAllRowsNameAreRight) {
  Random random(313);
  for (const gnn::ProductTerm term : kTerms) {
    Instance instance({.term = term, .rows = 1000, .cols = 256, .k = 2, .width = 65}, random);
    for (std::size_t i = 0; i < instance.selectors.size(); i += 2) {
      instance.selectors[i] = 255;
      instance.selectors[i + 1] = 3;
    }
    expect_right(instance, run(instance, {}));
  }
}

TEST_P(Products, OfInfinitiesStayWhereTheyAre) {
  Random random(317);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const gnn::ProductTerm term : kTerms) {
    // Row 1 holds infinities, but its selectors are out of range. Column 0 is infinite in W, but no selector refers to
    // it.
    Instance instance({.term = term, .rows = 3, .cols = 7, .k = 2, .width = 9}, random);
    instance.selectors = {1, 6, 7, 255, 2, 3};
    instance.values[2] = instance.values[3] = kInfinity;
    std::fill_n(instance.gradient.begin() + 9, 9, kInfinity);
    std::fill_n(instance.matrix.begin(), 9, kInfinity);
    expect_right(instance, run(instance, {}));
  }
}

TEST_P(Products, OfFrequentSelectorsAreRight) {
  Random random(329);
  for (const std::int64_t width : {1, 65}) {
    for (const gnn::ProductTerm term : kTerms) {
      Instance instance(
          {.term = term, .rows = 500, .cols = 600, .k = 40, .width = width, .selector_type = IndexType::u16}, random);
      for (std::size_t i = 0; i < instance.selectors.size(); ++i) {
        instance.selectors[i] = i % 40 == 39 ? random.between(300, 599) : static_cast<std::int64_t>(i % 40);
      }
      expect_right(instance, run(instance, {}));
    }
  }
}

TEST_P(Products, OfTheLargestMatrixAreRight) {
  Random random(337);
  for (const gnn::ProductTerm term : kTerms) {
    const Instance instance(
        {.term = term, .rows = 40, .cols = 65536, .k = 33, .width = 5, .selector_type = IndexType::u16}, random);
    expect_right(instance, run(instance, {}));
  }
}

// With few blocks, each takes several batches of rows, as with many rows.
TEST_P(Products, ChangedPlansAreRight) {
  if (GetParam() != rtopk::DeviceKind::cuda) GTEST_SKIP() << "of a plan for the CPU other tests change the threads";
  Random random(331);
  for (gnn::Product p :
       {gnn::Product{.rows = 1000, .cols = 256, .k = 32, .width = 100},
        gnn::Product{.rows = 1000, .cols = 600, .k = 70, .width = 33, .selector_type = IndexType::u16},
        gnn::Product{.rows = 1000, .cols = 600, .k = 70, .width = 1, .selector_type = IndexType::u16}}) {
    for (const gnn::ProductTerm term : kTerms) {
      p.term = term;
      const bool sums = term == gnn::ProductTerm::matrix_gradient;
      const Instance instance(p, random);
      for (const std::int64_t parts : {1, 2, 7}) {
        for (const bool small_chunks : {false, true}) {  // as on a GPU with less shared memory
          if (small_chunks && (!sums || p.width == 1)) continue;
          const auto change = [&](gnn::ProductPlan& plan) {
            plan.parts = parts;
            plan.workspace_bytes =
                sums && parts > 1 ? static_cast<std::size_t>(parts * p.cols * p.width) * sizeof(float) + 255 : 0;
            if (!small_chunks) return;
            plan.rows_per_worker = 32;
            plan.shared_bytes = static_cast<std::size_t>(8 * (32 * plan.cols_per_worker + 32 * 256 + 512));
          };
          expect_right(instance, run(instance, {.misalignment = 0, .change = change}));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(On, Products, kDevices, device_name);

TEST(ProductPlans, FitGpusThatAreNotHere) {
  for (const std::int64_t shared : {99, 163, 227}) {
    const rtopk::Traits traits{.device = {rtopk::DeviceKind::cuda, 0},
                               .compute_capability = 80,
                               .multiprocessors = 132,
                               .shared_bytes_per_block = shared * 1024};
    for (const gnn::ProductTerm term : kTerms) {
      for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{1}, std::int64_t{89250}, std::int64_t{1} << 40}) {
        for (const std::int64_t cols : {1, 256, 1024, 65536}) {
          for (const std::int64_t width : {1, 33, 256, 100000}) {
            gnn::ProductPlan plan;
            const rtopk::Status status = gnn::make_plan({.term = term,
                                                         .rows = rows,
                                                         .cols = cols,
                                                         .k = 1,
                                                         .width = width,
                                                         .selector_type = IndexType::u16,
                                                         .device = traits.device},
                                                        traits, plan);
            ASSERT_TRUE(status.ok()) << status.text();
            EXPECT_LE(plan.shared_bytes, static_cast<std::size_t>(traits.shared_bytes_per_block));
            EXPECT_GE(plan.parts, 1);
            EXPECT_LE(plan.parts, traits.multiprocessors);
            EXPECT_EQ(plan.workspace_bytes > 0, term == gnn::ProductTerm::matrix_gradient && plan.parts > 1);
            // The plan is valid: the only error is the missing memory.
            if (rows > 0) {
              EXPECT_NE(std::string(gnn::run(plan, {}).text()).find("is null"), std::string::npos);
            }
          }
        }
      }
    }
  }
}

TEST(ProductRefusals, NameTheArgument) {
  const gnn::Product good{.rows = 2, .cols = 8, .k = 2, .width = 3};
  const auto refused = [&](const char* what, auto change) {
    gnn::Product problem = good;
    change(problem);
    gnn::ProductPlan plan;
    rtopk::Traits traits = traits_with(1);
    traits.device = problem.device;
    const rtopk::Status status = gnn::make_plan(problem, traits, plan);
    EXPECT_FALSE(status.ok()) << what;
    EXPECT_NE(std::string(status.text()).find(what), std::string::npos) << status.text();
  };
  refused("rows is -1", [](gnn::Product& p) { p.rows = -1; });
  refused("rows is", [](gnn::Product& p) { p.rows = std::int64_t{1} << 60; });
  refused("cols is 0", [](gnn::Product& p) { p.cols = 0; });
  refused("k is 9", [](gnn::Product& p) { p.k = 9; });
  refused("width is 0", [](gnn::Product& p) { p.width = 0; });
  refused("selector_type is i32", [](gnn::Product& p) { p.selector_type = IndexType::i32; });
  refused("u16 above 256", [](gnn::Product& p) { p.cols = 257; });
  refused("device.kind is 7", [](gnn::Product& p) { p.device.kind = static_cast<rtopk::DeviceKind>(7); });
  refused("device.ordinal is 1", [](gnn::Product& p) { p.device.ordinal = 1; });

  gnn::ProductPlan plan;
  EXPECT_NE(std::string(gnn::make_plan(good, traits_with(0), plan).text()).find("traits.threads is 0"),
            std::string::npos);
  ASSERT_TRUE(gnn::make_plan(good, traits_with(1), plan).ok());
  std::vector<float> floats(64);
  std::vector<std::uint8_t> selectors(4);
  rtopk::gnn::ProductCall call{floats.data(), selectors.data(), floats.data() + 8, nullptr, floats.data() + 40};
  EXPECT_TRUE(gnn::run(plan, call).ok());
  call.matrix = nullptr;
  EXPECT_NE(std::string(gnn::run(plan, call).text()).find("matrix is null"), std::string::npos);
  call.matrix = call.result;
  EXPECT_NE(std::string(gnn::run(plan, call).text()).find("overlaps"), std::string::npos);
  plan.workspace_bytes = 1;
  EXPECT_NE(std::string(gnn::run(plan, call).text()).find("plan.threads"), std::string::npos);
  plan.workspace_bytes = 0;
  plan.cols_per_worker = 1;
  EXPECT_NE(std::string(gnn::run(plan, call).text()).find("plan.threads"), std::string::npos);
}

TEST(ProductRefusals, NameEveryPointer) {
  alignas(8) static std::byte memory[5][256];
  const auto floats = [](int i) { return reinterpret_cast<float*>(memory[i]); };
  const rtopk::gnn::ProductCall sound{floats(0), memory[1], floats(2), floats(3), floats(4)};
  for (const gnn::ProductTerm term : kTerms) {
    gnn::ProductPlan plan;
    ASSERT_TRUE(gnn::make_plan({.term = term, .rows = 2, .cols = 8, .k = 2, .width = 3}, plan).ok());
    EXPECT_TRUE(gnn::run(plan, sound).ok());
    const auto refused = [&](const std::string& argument, const std::function<void(rtopk::gnn::ProductCall&)>& change) {
      rtopk::gnn::ProductCall call = sound;
      change(call);
      expect_refused(gnn::run(plan, call), argument);
    };
    const auto floats_are_read = [&](const char* argument, const float* rtopk::gnn::ProductCall::*member) {
      refused(argument, [&](auto& call) { call.*member = nullptr; });
      refused(argument, [&](auto& call) {
        call.*member = reinterpret_cast<const float*>(reinterpret_cast<const char*>(sound.*member) + 2);
      });
      refused(std::string("result overlaps ") + argument,
              [&](auto& call) { call.result = const_cast<float*>(sound.*member) + 1; });
    };
    if (term != gnn::ProductTerm::values_gradient) floats_are_read("values", &rtopk::gnn::ProductCall::values);
    if (term != gnn::ProductTerm::matrix_gradient) floats_are_read("matrix", &rtopk::gnn::ProductCall::matrix);
    if (term != gnn::ProductTerm::product) floats_are_read("gradient", &rtopk::gnn::ProductCall::gradient);
    refused("selectors", [](auto& call) { call.selectors = nullptr; });
    refused("result overlaps selectors", [&](auto& call) { call.result = floats(1); });
    refused("result", [](auto& call) { call.result = nullptr; });
    const rtopk::Executor no_function{};
    rtopk::Launch launch;
    launch.executor = &no_function;
    expect_refused(gnn::run(plan, sound, {}, launch), "launch.executor");
  }
}

TEST(ProductRefusals, OfAGpuWhereItWasNotBuilt) {
  if (rtopk::build_info().cuda) GTEST_SKIP() << "this build has CUDA";
  const rtopk::Device gpu{rtopk::DeviceKind::cuda, 0};
  gnn::ProductPlan plan;
  const gnn::Product problem{.rows = 2, .cols = 8, .k = 2, .width = 3, .device = gpu};
  expect_refused(gnn::make_plan(problem, plan), "device is cuda");
  const rtopk::Traits traits{
      .device = gpu, .compute_capability = 90, .multiprocessors = 132, .shared_bytes_per_block = 227 * 1024};
  ASSERT_TRUE(gnn::make_plan(problem, traits, plan).ok());  // planning needs no backend
  static float memory[5][64];
  std::vector<std::byte> workspace(plan.workspace_bytes);
  const rtopk::Status status =
      gnn::run(plan, {memory[0], memory[1], memory[2], memory[3], memory[4]}, {workspace.data(), workspace.size()});
  EXPECT_EQ(status.code(), rtopk::StatusCode::not_supported) << status.text();
}

TEST(ProductRefusals, OfPlansForAGpu) {
  rtopk::Traits traits{.device = {rtopk::DeviceKind::cuda, 0},
                       .compute_capability = 90,
                       .multiprocessors = 132,
                       .shared_bytes_per_block = 227 * 1024};
  gnn::Product problem{.rows = 5000, .cols = 256, .k = 32, .width = 256, .device = traits.device};
  const auto refused = [&](const char* what, auto change) {
    for (const gnn::ProductTerm term : kTerms) {
      problem.term = term;
      gnn::ProductPlan plan;
      ASSERT_TRUE(gnn::make_plan(problem, traits, plan).ok());
      change(plan);
      const rtopk::Status status = gnn::run(plan, {});
      EXPECT_NE(std::string(status.text()).find(what), std::string::npos) << name(term) << ": " << status.text();
    }
  };
  refused("plan.threads is 256", [](gnn::ProductPlan& plan) { plan.threads = 256; });
  refused("plan.rows_per_worker is 7", [](gnn::ProductPlan& plan) { plan.rows_per_worker = 7; });
  refused("plan.cols_per_worker is 16", [](gnn::ProductPlan& plan) { plan.cols_per_worker = 16; });
  refused("plan.parts is 0", [](gnn::ProductPlan& plan) { plan.parts = 0; });
  refused("plan.parts is 5001", [](gnn::ProductPlan& plan) { plan.parts = 5001; });
  refused("plan.shared_bytes", [](gnn::ProductPlan& plan) { plan.shared_bytes -= 4; });
  refused("plan.shared_bytes", [](gnn::ProductPlan& plan) { plan.workspace_bytes += 1; });
  refused("is null", [](gnn::ProductPlan&) {});

  traits.shared_bytes_per_block = 16 * 1024;
  gnn::ProductPlan plan;
  EXPECT_NE(std::string(gnn::make_plan(problem, traits, plan).text()).find("16384 shared_bytes"), std::string::npos);
}

}  // namespace
}  // namespace rtopk_test
