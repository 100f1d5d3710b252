// Graph operators with offsets beyond 32 bits. All memory is zero except for a few rows, nodes or edges at the far
// end. An offset without its upper bits would read zeros, or write where zeros must stay.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <rtopk/gnn/aggregate.hpp>
#include <rtopk/gnn/norm.hpp>
#include <rtopk/gnn/product.hpp>
#include "internal/linear.hpp"

#include "encoding.hpp"
#include "large_memory.hpp"
#include "on_device.hpp"

namespace rtopk_test {

namespace gnn = rtopk::gnn;
namespace {

using rtopk::DType;
using rtopk::IndexType;
using Floats = std::vector<float>;
using Indices = std::vector<std::int64_t>;

constexpr std::int64_t kBeyond = std::int64_t{1} << 32;  ///< Elements.
constexpr const char* kTooLittleMemory = "there is not so much memory";

Floats counted(std::int64_t count, float step) {
  Floats floats(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(i) * step;
  return floats;
}

class GraphSizes : public OnDevice {
 protected:
  /// Zero-initialised numbers of a type; `count` is 0 if memory is short.
  struct Numbers {
    DType dtype;
    std::unique_ptr<LargeMemory> memory;

    Numbers(std::int64_t count, DType type)
        : dtype(type), memory(LargeMemory::zeros(GetParam(), count * size())), count_(memory ? count : 0) {}

    explicit operator bool() const { return memory != nullptr; }
    [[nodiscard]] void* data() const { return memory->data(); }
    [[nodiscard]] float* floats() const { return static_cast<float*>(memory->data()); }
    void put(std::int64_t at, const Floats& numbers) const { memory->write(at * size(), encode(numbers, dtype)); }
    void put_last(const Floats& numbers) const { put(count_ - std::ssize(numbers), numbers); }
    [[nodiscard]] Floats get(std::int64_t at, std::int64_t count) const {
      return decode(memory->read(at * size(), count * size()), dtype);
    }
    [[nodiscard]] Floats get_last(std::int64_t count) const { return get(count_ - count, count); }
    /// The elements where the last ones would be without the upper bits of the offset.
    [[nodiscard]] Floats get_wrapped(std::int64_t count) const { return get(count_ - count - kBeyond, count); }

   private:
    [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(rtopk::size_of(dtype)); }
    std::int64_t count_;
  };

  /// The same for indices.
  struct Places {
    IndexType type;
    std::unique_ptr<LargeMemory> memory;

    Places(std::int64_t count, IndexType wanted)
        : type(wanted), memory(LargeMemory::zeros(GetParam(), count * size())), count_(memory ? count : 0) {}
    Places(const Indices& indices, IndexType wanted) : Places(std::ssize(indices), wanted) { put(0, indices); }

    explicit operator bool() const { return memory != nullptr; }
    [[nodiscard]] void* data() const { return memory->data(); }
    void put(std::int64_t at, const Indices& indices) const { memory->write(at * size(), encode(indices, type)); }
    void put_last(const Indices& indices) const { put(count_ - std::ssize(indices), indices); }
    [[nodiscard]] Indices get(std::int64_t at, std::int64_t count) const {
      return decode(memory->read(at * size(), count * size()), type);
    }

   private:
    [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(rtopk::size_of(type)); }
    std::int64_t count_;
  };

  template <class Plan, class Problem, class Call>
  static void run(const Problem& problem, const Call& call) {
    const auto plan = plan_of<Plan>(problem, 2);
    const auto workspace = LargeMemory::zeros(GetParam(), static_cast<std::int64_t>(plan.workspace_bytes));
    ASSERT_NE(workspace, nullptr);
    const rtopk::Status status = gnn::run(plan, call, {workspace->data(), plan.workspace_bytes});
    ASSERT_TRUE(status.ok()) << status.text();
    static_cast<void>(workspace->read(0, 1));  // the workspace must live until all work is done
  }
};

TEST_P(GraphSizes, NodesBeyond32Bits) {
  constexpr std::int64_t k = 64;
  constexpr std::int64_t nodes = kBeyond / k + 3;
  const Numbers values(nodes * k, DType::f16);
  const Places selectors(nodes * k, IndexType::u8);
  const Numbers result(3 * 200, DType::f16);
  if (!values || !selectors) GTEST_SKIP() << kTooLittleMemory;
  Indices even(k);
  for (std::int64_t i = 0; i < k; ++i) even[static_cast<std::size_t>(i)] = 2 * i;
  values.put_last(counted(k, 1.0f));
  selectors.put_last(even);
  values.put(k, Floats(k, 100.0f));  // node 1: the columns of the last node, reversed
  selectors.put(k, Indices(even.rbegin(), even.rend()));
  for (const IndexType type : {IndexType::i32, IndexType::i64}) {
    const Places row_starts(Indices{0, 2, 2, 3}, type);
    const Places columns(Indices{nodes - 1, 1, nodes - 1}, type);
    run<rtopk::gnn::AggregationPlan>(
        rtopk::gnn::Aggregation{
            .rows = 3, .nodes = nodes, .edges = 3, .cols = 200, .k = k, .dtype = DType::f16, .graph_index_type = type},
        rtopk::gnn::AggregationCall{.graph = {row_starts.data(), columns.data()},
                                    .values = values.data(),
                                    .selectors = selectors.data(),
                                    .result = result.data()});
    Floats expected(3 * 200, 0.0f);
    for (std::size_t i = 0; i < k; ++i) {
      expected[2 * i] = static_cast<float>(i) + 100.0f;
      expected[400 + 2 * i] = static_cast<float>(i);
    }
    EXPECT_EQ(result.get(0, 3 * 200), expected);
  }
}

TEST_P(GraphSizes, RowsOfAGradientBeyond32Bits) {
  constexpr std::int64_t cols = 256;
  constexpr std::int64_t rows = kBeyond / cols + 3;
  const Numbers gradient(rows * cols, DType::f16);
  const Places row_starts(rows + 1, IndexType::i32);
  if (!gradient || !row_starts) GTEST_SKIP() << kTooLittleMemory;
  gradient.put_last(counted(cols, 2.0f));
  row_starts.put_last({2});  // two edges, both in the last row
  const Places columns(Indices{1, 0}, IndexType::i32);
  const Places t_row_starts(Indices{0, 1, 2}, IndexType::i32);
  const Places t_columns(Indices{rows - 1, rows - 1}, IndexType::i32);
  const Places selectors(Indices{0, 7, 255, 3, 9, 100}, IndexType::u8);
  for (const bool deterministic : {false, true}) {
    const Numbers result(6, DType::f16);
    run<rtopk::gnn::AggregationPlan>(rtopk::gnn::Aggregation{.term = gnn::AggregationTerm::backward,
                                                             .rows = rows,
                                                             .nodes = 2,
                                                             .edges = 2,
                                                             .cols = cols,
                                                             .k = 3,
                                                             .dtype = DType::f16,
                                                             .mean = true,
                                                             .deterministic = deterministic},
                                     rtopk::gnn::AggregationCall{.graph = {row_starts.data(), columns.data()},
                                                                 .transposed = {t_row_starts.data(), t_columns.data()},
                                                                 .selectors = selectors.data(),
                                                                 .gradient = gradient.data(),
                                                                 .result = result.data()});
    EXPECT_EQ(result.get(0, 6), (Floats{0, 7, 255, 3, 9, 100}));
  }
}

/// Tests that read or write more than a CPU can in a short time.
class GraphSizesOnGpu : public GraphSizes {};

TEST_P(GraphSizesOnGpu, ResultsBeyond32Bits) {
  constexpr std::int64_t cols = 256;
  constexpr std::int64_t rows = kBeyond / cols + 3;
  const Places row_starts(rows + 1, IndexType::i32);
  const Numbers result(rows * cols, DType::f16);
  if (!row_starts || !result) GTEST_SKIP() << kTooLittleMemory;
  row_starts.put_last({1});
  const Places columns(Indices{1}, IndexType::i32);
  const Numbers values(4, DType::f16);
  values.put(0, {9, 9, 1, 2});
  const Places selectors(Indices{0, 1, 4, 250}, IndexType::u8);
  run<rtopk::gnn::AggregationPlan>(
      rtopk::gnn::Aggregation{.rows = rows, .nodes = 2, .edges = 1, .cols = cols, .k = 2, .dtype = DType::f16},
      rtopk::gnn::AggregationCall{.graph = {row_starts.data(), columns.data()},
                                  .values = values.data(),
                                  .selectors = selectors.data(),
                                  .result = result.data()});
  Floats expected(cols, 0.0f);
  EXPECT_EQ(result.get_wrapped(cols), expected);
  expected[4] = 1.0f;
  expected[250] = 2.0f;
  EXPECT_EQ(result.get_last(cols), expected);
}

TEST_P(GraphSizesOnGpu, GradientsBeyond32Bits) {
  constexpr std::int64_t k = 64;
  constexpr std::int64_t nodes = kBeyond / k + 3;
  for (const bool deterministic : {false, true}) {
    const DType dtype = deterministic ? DType::f16 : DType::f32;
    const Numbers result(nodes * k, dtype);
    const Places selectors(nodes * k, IndexType::u8);
    const Places t_row_starts(nodes + 1, IndexType::i32);
    if (!result || !selectors || !t_row_starts) GTEST_SKIP() << kTooLittleMemory;
    Indices columns_of_last(k);
    std::iota(columns_of_last.begin(), columns_of_last.end(), std::int64_t{100});
    selectors.put_last(columns_of_last);
    t_row_starts.put_last({1});
    const Places row_starts(Indices{0, 1}, IndexType::i32);
    const Places columns(Indices{nodes - 1}, IndexType::i32);
    const Places t_columns(Indices{0}, IndexType::i32);
    const Numbers gradient(200, dtype);
    gradient.put(0, counted(200, 1.0f));
    run<rtopk::gnn::AggregationPlan>(rtopk::gnn::Aggregation{.term = gnn::AggregationTerm::backward,
                                                             .rows = 1,
                                                             .nodes = nodes,
                                                             .edges = 1,
                                                             .cols = 200,
                                                             .k = k,
                                                             .dtype = dtype,
                                                             .deterministic = deterministic},
                                     rtopk::gnn::AggregationCall{.graph = {row_starts.data(), columns.data()},
                                                                 .transposed = {t_row_starts.data(), t_columns.data()},
                                                                 .selectors = selectors.data(),
                                                                 .gradient = gradient.data(),
                                                                 .result = result.data()});
    EXPECT_EQ(result.get_wrapped(k), Floats(k, 0.0f));
    EXPECT_EQ(result.get_last(k), Floats(columns_of_last.begin(), columns_of_last.end()));
  }
}

TEST_P(GraphSizesOnGpu, EdgesBeyond31Bits) {
  constexpr std::int64_t kHub = kBeyond / 2 + 100;  // edges of row 1, to node 0; row 2 has five, to node 1
  const Places columns(kHub + 5, IndexType::i64);
  if (!columns) GTEST_SKIP() << kTooLittleMemory;
  columns.put_last({1, 1, 1, 1, 1});
  const Places row_starts(Indices{0, 0, kHub, kHub + 5}, IndexType::i64);
  const Places selectors(Indices{0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 4, 6}, IndexType::u8);
  const Numbers values(8, DType::f32);
  values.put(0, {1, 2, 0.5f, 0, 1, 2, 3, 4});
  const Numbers result(3 * 8, DType::f32);
  constexpr auto kSum = static_cast<float>(kHub);
  const auto expect_near = [](const Floats& expected, const Floats& found) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5f * expected[i]) << i;
  };
  const rtopk::gnn::Aggregation forward{.rows = 3,
                                        .nodes = 2,
                                        .edges = kHub + 5,
                                        .cols = 8,
                                        .k = 4,
                                        .graph_index_type = IndexType::i64,
                                        .deterministic = true};
  run<rtopk::gnn::AggregationPlan>(forward, rtopk::gnn::AggregationCall{.graph = {row_starts.data(), columns.data()},
                                                                        .values = values.data(),
                                                                        .selectors = selectors.data(),
                                                                        .result = result.data()});
  expect_near({0, 0, 0, 0, 0, 0, 0, 0, kSum, 2 * kSum, kSum / 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 10, 15, 20},
              result.get(0, 24));

  // The same graph as A^T, with three nodes and two rows: the values are dY.
  rtopk::gnn::Aggregation backward = forward;
  backward.term = gnn::AggregationTerm::backward;
  backward.rows = 2;
  backward.nodes = 3;
  backward.cols = 4;
  backward.k = 2;
  const Places two_each(Indices{0, 1, 0, 2, 1, 3}, IndexType::u8);
  run<rtopk::gnn::AggregationPlan>(backward,
                                   rtopk::gnn::AggregationCall{.transposed = {row_starts.data(), columns.data()},
                                                               .selectors = two_each.data(),
                                                               .gradient = values.data(),
                                                               .result = result.data()});
  expect_near({0, 0, kSum, kSum / 2, 10, 20}, result.get(0, 6));

  const rtopk::gnn::Transposition problem{
      .rows = 3, .nodes = 2, .edges = kHub + 5, .graph_index_type = IndexType::i64, .device = {GetParam(), 0}};
  rtopk::gnn::TranspositionPlan plan;
  ASSERT_TRUE(gnn::make_plan(problem, plan).ok());
  const Places t_row_starts(3, IndexType::i64);
  const Places t_columns(kHub + 5, IndexType::i64);
  const auto workspace = LargeMemory::zeros(GetParam(), static_cast<std::int64_t>(plan.workspace_bytes));
  if (!t_columns || workspace == nullptr) GTEST_SKIP() << kTooLittleMemory;
  const rtopk::Status status =
      gnn::run(plan, {row_starts.data(), columns.data()}, {t_row_starts.data(), t_columns.data()},
               {workspace->data(), plan.workspace_bytes});
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(t_row_starts.get(0, 3), (Indices{0, kHub, kHub + 5}));
  EXPECT_EQ(t_columns.get(0, 1), (Indices{1}));
  EXPECT_EQ(t_columns.get(kHub - 1, 6), (Indices{1, 2, 2, 2, 2, 2}));
}

TEST_P(GraphSizesOnGpu, ProductsBeyond32Bits) {
  constexpr std::int64_t width = 256;
  constexpr std::int64_t rows = kBeyond / width + 3;
  const Numbers wide(rows * width, DType::f32);  // first Y, then dY
  const Numbers values(rows * 2, DType::f32);
  const Places selectors(rows * 2, IndexType::u8);
  if (!wide || !values || !selectors) GTEST_SKIP() << kTooLittleMemory;
  values.put_last({1, 2});
  selectors.put_last({3, 5});
  const Numbers matrix(8 * width, DType::f32);
  matrix.put(3 * width, counted(width, 1.0f));
  matrix.put(5 * width, Floats(width, 1000.0f));
  rtopk::gnn::Product problem{.rows = rows, .cols = 8, .k = 2, .width = width};
  const auto call_with = [&](float* result) {
    return rtopk::gnn::ProductCall{values.floats(), selectors.data(), matrix.floats(), wide.floats(), result};
  };
  run<rtopk::gnn::ProductPlan>(problem, call_with(wide.floats()));
  EXPECT_EQ(wide.get_wrapped(width), Floats(width, 0.0f));
  Floats expected = counted(width, 1.0f);
  for (float& x : expected) x += 2000.0f;
  EXPECT_EQ(wide.get_last(width), expected);

  wide.put_last(Floats(width, 1.0f));
  problem.term = rtopk::gnn::ProductTerm::values_gradient;
  const Numbers of_values(rows * 2, DType::f32);
  run<rtopk::gnn::ProductPlan>(problem, call_with(of_values.floats()));
  EXPECT_EQ(of_values.get_last(2), (Floats{255 * 128, 256000}));

  problem.term = rtopk::gnn::ProductTerm::matrix_gradient;
  const Numbers of_matrix(8 * width, DType::f32);
  run<rtopk::gnn::ProductPlan>(problem, call_with(of_matrix.floats()));
  EXPECT_EQ(of_matrix.get(0, width), Floats(width, 0.0f));
  EXPECT_EQ(of_matrix.get(3 * width, width), Floats(width, 1.0f));
  EXPECT_EQ(of_matrix.get(5 * width, width), Floats(width, 2.0f));
}

TEST_P(GraphSizesOnGpu, NormalizedRowsBeyond32Bits) {
  constexpr std::int64_t cols = 512;
  constexpr std::int64_t rows = kBeyond / cols + 3;
  const Numbers input(rows * cols, DType::f32);
  const Numbers result(rows * cols, DType::f32);
  if (!input || !result) GTEST_SKIP() << kTooLittleMemory;
  Floats signs(cols, 1.0f);
  for (std::size_t i = 1; i < cols; i += 2) signs[i] = -1.0f;
  input.put_last(signs);
  const Numbers gamma(cols, DType::f32);
  gamma.put(0, Floats(cols, 1.0f));
  const Numbers beta(cols, DType::f32);
  const Numbers of_gamma(cols, DType::f32);
  const Numbers of_beta(cols, DType::f32);
  const Numbers values(rows, DType::f32);  // a gradient with one element per row
  const Places selectors(rows, IndexType::u16);
  values.put_last({1});
  selectors.put_last({7});
  rtopk::gnn::Norm problem{.rows = rows, .cols = cols, .k = 1, .selector_type = IndexType::u16, .epsilon = 0.25f};
  const rtopk::gnn::NormCall call{.input = input.floats(),
                                  .gamma = gamma.floats(),
                                  .beta = beta.floats(),
                                  .values = values.floats(),
                                  .selectors = selectors.data(),
                                  .result = result.floats(),
                                  .gamma_gradient = of_gamma.floats(),
                                  .beta_gradient = of_beta.floats()};
  const float scale = 1.0f / std::sqrt(1.25f);  // for a row with variance 1; a row of zeros stays zero
  run<rtopk::gnn::NormPlan>(problem, call);
  EXPECT_EQ(result.get_wrapped(cols), Floats(cols, 0.0f));
  const Floats y = result.get_last(cols);
  for (std::size_t i = 0; i < cols; ++i) EXPECT_NEAR(y[i], signs[i] * scale, 1e-5f) << i;

  problem.term = rtopk::gnn::NormTerm::compact_gradient;
  run<rtopk::gnn::NormPlan>(problem, call);
  EXPECT_NEAR(of_gamma.get(7, 1)[0], -scale, 1e-5f);
  EXPECT_EQ(of_beta.get(7, 1)[0], 1.0f);
  const Floats dx = result.get_last(cols);
  for (std::size_t i = 0; i < cols; ++i) {
    const float own = i == 7 ? 1.0f : 0.0f;
    EXPECT_NEAR(dx[i], scale * (own - (1.0f - signs[i] * scale * scale) / 512.0f), 1e-5f) << i;
  }
}

TEST_P(GraphSizesOnGpu, LinearMapsBeyond32Bits) {
  constexpr std::int64_t inputs = 128;
  constexpr std::int64_t rows = kBeyond / inputs + 3;
  rtopk::gnn::Linear problem{.rows = rows, .inputs = inputs, .outputs = 4};
  rtopk::gnn::LinearPlan plan;
  const rtopk::Status status = gnn::make_plan(problem, plan);
  if (status.code() == rtopk::StatusCode::not_supported) GTEST_SKIP() << status.text();
  const Numbers wide(rows * inputs, DType::f32);  // first X, then dX
  const Numbers narrow(rows * 4, DType::f32);     // first Y, then dY
  if (!wide || !narrow) GTEST_SKIP() << kTooLittleMemory;
  wide.put_last(counted(inputs, 1.0f));
  const Numbers matrix(4 * inputs, DType::f32);
  for (std::int64_t i = 0; i < 4; ++i) matrix.put(i * inputs, Floats(inputs, static_cast<float>(i)));
  run<rtopk::gnn::LinearPlan>(
      problem, rtopk::gnn::LinearCall{.input = wide.floats(), .matrix = matrix.floats(), .result = narrow.floats()});
  EXPECT_EQ(narrow.get_last(4), (Floats{0, 8128, 16256, 24384}));
  EXPECT_EQ(narrow.get(8, 4), Floats(4, 0.0f));

  narrow.put_last({1, 2, 3, 4});
  problem.term = rtopk::gnn::LinearTerm::matrix_gradient;
  const Numbers of_matrix(4 * inputs, DType::f32);
  run<rtopk::gnn::LinearPlan>(
      problem,
      rtopk::gnn::LinearCall{.input = wide.floats(), .gradient = narrow.floats(), .result = of_matrix.floats()});
  EXPECT_EQ(of_matrix.get(3 * inputs, inputs), counted(inputs, 4.0f));

  problem.term = rtopk::gnn::LinearTerm::input_gradient;
  run<rtopk::gnn::LinearPlan>(
      problem, rtopk::gnn::LinearCall{.matrix = matrix.floats(), .gradient = narrow.floats(), .result = wide.floats()});
  EXPECT_EQ(wide.get_last(inputs), Floats(inputs, 20.0f));
  EXPECT_EQ(wide.get_wrapped(inputs), Floats(inputs, 0.0f));
}

INSTANTIATE_TEST_SUITE_P(On, GraphSizes, kDevices, device_name);
INSTANTIATE_TEST_SUITE_P(On, GraphSizesOnGpu, testing::Values(rtopk::DeviceKind::cuda), device_name);

}  // namespace
}  // namespace rtopk_test
