// Products of compact rows against sums in f64, at the limits of memory, with any number of threads; and refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <rtopk/product.hpp>

#include "device_memory.hpp"
#include "random.hpp"

namespace {

using rtopk::IndexType;
using rtopk::Product;
using rtopk::ProductPlan;
using rtopk::ProductTerm;
using rtopk_test::DeviceMemory;
using rtopk_test::Random;
using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& from) {
  const auto* data = reinterpret_cast<const std::byte*>(from.data());
  return {data, data + from.size() * sizeof(T)};
}

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
  Product p;
  std::vector<std::int64_t> selectors;
  std::vector<float> values, matrix, gradient, before;

  Instance(const Product& problem, Random& random) : p(problem) {
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
    return p.term == ProductTerm::product           ? p.rows * p.width
           : p.term == ProductTerm::values_gradient ? p.rows * p.k
                                                    : p.cols * p.width;
  }

  [[nodiscard]] std::vector<Sum> expected() const {
    std::vector<Sum> sums(static_cast<std::size_t>(results()));
    if (p.term == ProductTerm::product) {
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
          if (p.term == ProductTerm::product) sums[of_row].add(value * matrix[of_matrix]);
          if (p.term == ProductTerm::values_gradient) sums[at].add(double{gradient[of_row]} * matrix[of_matrix]);
          if (p.term == ProductTerm::matrix_gradient) sums[of_matrix].add(value * gradient[of_row]);
        }
      }
    }
    return sums;
  }

  [[nodiscard]] Bytes encoded_selectors() const {
    if (p.selector_type == IndexType::u8)
      return bytes_of(std::vector<std::uint8_t>(selectors.begin(), selectors.end()));
    return bytes_of(std::vector<std::uint16_t>(selectors.begin(), selectors.end()));
  }
};

rtopk::Traits traits_with(std::int32_t threads) {
  rtopk::Traits traits;
  EXPECT_TRUE(rtopk::query_traits(rtopk::Device{}, traits).ok());
  traits.threads = threads;
  return traits;
}

std::unique_ptr<DeviceMemory> memory(const Bytes& content) {
  return DeviceMemory::make(rtopk::DeviceKind::cpu, content, 4);  // as floats are aligned, and no better
}

std::vector<float> run(const Instance& instance, std::int32_t threads) {
  ProductPlan plan;
  rtopk::Status status = rtopk::make_plan(instance.p, traits_with(threads), plan);
  EXPECT_TRUE(status.ok()) << status.text();
  const auto values = memory(bytes_of(instance.values));
  const auto selectors = memory(instance.encoded_selectors());
  const auto matrix = memory(bytes_of(instance.matrix));
  const auto gradient = memory(bytes_of(instance.gradient));
  const auto result = memory(bytes_of(instance.before));
  status = rtopk::run(plan, {.values = static_cast<float*>(values->data()),
                             .selectors = selectors->data(),
                             .matrix = static_cast<float*>(matrix->data()),
                             .gradient = static_cast<float*>(gradient->data()),
                             .result = static_cast<float*>(result->data())});
  EXPECT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(result->damage(), "");
  const Bytes content = result->content();
  const auto* floats = reinterpret_cast<const float*>(content.data());
  return {floats, floats + content.size() / sizeof(float)};
}

TEST(Products, AreRightWithAnyNumberOfThreads) {
  Random random(307);
  for (const ProductTerm term : {ProductTerm::product, ProductTerm::values_gradient, ProductTerm::matrix_gradient}) {
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
          SCOPED_TRACE(testing::Message() << name(term) << ", " << rows << " rows, " << cols << " columns, k "
                                          << instance.p.k << ", width " << width);
          const std::vector<float> results = run(instance, 1);
          const std::vector<Sum> expected = instance.expected();
          const double terms = static_cast<double>(std::max({rows, instance.p.k, width}) + 4);
          for (std::size_t i = 0; i < expected.size(); ++i) {
            ASSERT_NEAR(results[i], expected[i].value, terms * 0x1p-24 * expected[i].magnitude) << "result " << i;
          }
          EXPECT_EQ(run(instance, 3), results);
          EXPECT_EQ(run(instance, 64), results);
        }
      }
    }
  }
}

TEST(ProductRefusals, NameTheArgument) {
  const Product good{.rows = 2, .cols = 8, .k = 2, .width = 3};
  const auto refused = [&](const char* what, auto change) {
    Product problem = good;
    change(problem);
    ProductPlan plan;
    rtopk::Traits traits = traits_with(1);
    traits.device = problem.device;
    const rtopk::Status status = rtopk::make_plan(problem, traits, plan);
    EXPECT_FALSE(status.ok()) << what;
    EXPECT_NE(std::string(status.text()).find(what), std::string::npos) << status.text();
  };
  refused("rows is -1", [](Product& p) { p.rows = -1; });
  refused("rows is", [](Product& p) { p.rows = std::int64_t{1} << 60; });
  refused("cols is 0", [](Product& p) { p.cols = 0; });
  refused("k is 9", [](Product& p) { p.k = 9; });
  refused("width is 0", [](Product& p) { p.width = 0; });
  refused("selector_type is i32", [](Product& p) { p.selector_type = IndexType::i32; });
  refused("u16 above 256", [](Product& p) { p.cols = 257; });
  refused("accepted for a product of compact rows: the CPU",
          [](Product& p) { p.device.kind = rtopk::DeviceKind::cuda; });

  ProductPlan plan;
  ASSERT_TRUE(rtopk::make_plan(good, traits_with(1), plan).ok());
  std::vector<float> floats(64);
  std::vector<std::uint8_t> selectors(4);
  rtopk::ProductCall call{floats.data(), selectors.data(), floats.data() + 8, nullptr, floats.data() + 40};
  EXPECT_TRUE(rtopk::run(plan, call).ok());
  call.matrix = nullptr;
  EXPECT_NE(std::string(rtopk::run(plan, call).text()).find("matrix is null"), std::string::npos);
  call.matrix = call.result;
  EXPECT_NE(std::string(rtopk::run(plan, call).text()).find("overlaps"), std::string::npos);
  plan.cols_per_worker = 1;
  EXPECT_NE(std::string(rtopk::run(plan, call).text()).find("plan.threads"), std::string::npos);
}

}  // namespace
