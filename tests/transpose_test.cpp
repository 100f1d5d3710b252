// Transposition of graphs on every device of this machine, also with edges out of range; and errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <rtopk/gnn/aggregate.hpp>

#include "graph.hpp"
#include "on_device.hpp"
#include "refusals.hpp"

namespace rtopk_test {

namespace gnn = rtopk::gnn;
namespace {

using rtopk::IndexType;

class Transpositions : public OnDevice {};

TEST_P(Transpositions, AreRight) {
  Random random(seed() + 208);
  for (const IndexType type : {IndexType::i32, IndexType::i64}) {
    for (const bool weighted : {false, true}) {
      for (const bool sound : {true, false}) {
        TestGraph graph = graph_of(random_degrees(random.between(0, 200), 300, random), 90, random);
        for (std::int64_t& column : graph.columns) {
          if (!sound && random.between(0, 5) == 0) column = random.coin() ? 90 : -7;
        }
        const TestGraph expected = transpose(graph);
        rtopk::gnn::TranspositionPlan plan;
        rtopk::Status status = gnn::make_plan(rtopk::gnn::Transposition{.rows = graph.rows(),
                                                                        .nodes = graph.nodes,
                                                                        .edges = graph.edges(),
                                                                        .graph_index_type = type,
                                                                        .weighted = weighted,
                                                                        .device = {GetParam(), 0}},
                                              plan);
        ASSERT_TRUE(status.ok()) << status.text();
        const GraphMemory from(GetParam(), graph, type);
        const std::size_t size = rtopk::size_of(type);
        const auto row_starts = memory(Bytes(expected.row_starts.size() * size, std::byte{0xff}));
        const auto columns = memory(Bytes(expected.columns.size() * size, std::byte{0x55}));
        const auto weights = memory(Bytes(expected.columns.size() * sizeof(float), std::byte{0xff}));
        const auto workspace = memory(Bytes(plan.workspace_bytes, std::byte{0xff}), 1);
        status =
            gnn::run(plan, from.view(), {row_starts->data(), columns->data(), static_cast<float*>(weights->data())},
                     {workspace->data(), plan.workspace_bytes});
        ASSERT_TRUE(status.ok()) << status.text();
        EXPECT_EQ(decode(row_starts->content(), type), expected.row_starts);
        EXPECT_EQ(decode(columns->content(), type), expected.columns);
        if (weighted) {
          EXPECT_EQ(decode(weights->content(), rtopk::DType::f32), expected.weights);
        }
        for (const auto* part : {&row_starts, &columns, &weights, &workspace}) EXPECT_EQ((*part)->damage(), "");
      }
    }
  }
}

TEST_P(Transpositions, OfRowStartsThatMakeNoSenseAreGraphs) {
  Random random(seed() + 210);
  for (int i = 0; i < 20; ++i) {
    const IndexType type = random.coin() ? IndexType::i32 : IndexType::i64;
    TestGraph graph = graph_of(random_degrees(random.between(1, 60), 300, random), 40, random);
    const std::vector<std::int64_t> senseless{-1, -(1 << 30), 1 << 30, graph.edges() + 1, 0, graph.edges()};
    for (int j = 0; j < 5; ++j) {
      graph.row_starts[static_cast<std::size_t>(random.between(0, graph.rows()))] = random.pick(senseless);
    }
    rtopk::gnn::TranspositionPlan plan;
    ASSERT_TRUE(gnn::make_plan(rtopk::gnn::Transposition{.rows = graph.rows(),
                                                         .nodes = graph.nodes,
                                                         .edges = graph.edges(),
                                                         .graph_index_type = type,
                                                         .device = {GetParam(), 0}},
                               plan)
                    .ok());
    const GraphMemory from(GetParam(), graph, type);
    const std::size_t size = rtopk::size_of(type);
    const auto row_starts = memory(Bytes(static_cast<std::size_t>(graph.nodes + 1) * size, std::byte{0x55}));
    const auto columns = memory(Bytes(graph.columns.size() * size, std::byte{0x55}));
    const auto workspace = memory(Bytes(plan.workspace_bytes, std::byte{0xff}), 1);
    const rtopk::Workspace space{workspace->data(), plan.workspace_bytes};
    ASSERT_TRUE(gnn::run(plan, from.view(), {row_starts->data(), columns->data()}, space).ok());
    for (const auto* part : {&row_starts, &columns, &workspace}) EXPECT_EQ((*part)->damage(), "");
    const std::vector<std::int64_t> starts = decode(row_starts->content(), type);
    EXPECT_EQ(starts.front(), 0);
    EXPECT_TRUE(std::is_sorted(starts.begin(), starts.end()));
    EXPECT_LE(starts.back(), graph.edges());
    std::int64_t edge = 0;
    for (const std::int64_t row : decode(columns->content(), type)) {
      const bool exists = row >= 0 && row < graph.rows();
      EXPECT_TRUE(edge < starts.back() ? exists : row == -1) << "edge " << edge << " is of row " << row;
      ++edge;
    }
  }
}

TEST_P(Transpositions, NeedTheWorkspaceThatTheyAskedFor) {
  rtopk::gnn::TranspositionPlan plan;
  const rtopk::gnn::Transposition problem{.rows = 1, .nodes = 1, .edges = 1, .device = {GetParam(), 0}};
  ASSERT_TRUE(gnn::make_plan(problem, plan).ok());
  if (plan.workspace_bytes == 0) GTEST_SKIP() << "none is needed";
  const GraphMemory from(GetParam(), {.nodes = 1, .row_starts = {0, 1}, .columns = {0}, .weights = {}}, IndexType::i32);
  const auto row_starts = memory(Bytes(8));
  const auto columns = memory(Bytes(4));
  const auto workspace = memory(Bytes(plan.workspace_bytes));
  const rtopk::gnn::TransposedGraph to{row_starts->data(), columns->data()};
  expect_refused(gnn::run(plan, from.view(), to), "workspace.data");
  expect_refused(gnn::run(plan, from.view(), to, {workspace->data(), plan.workspace_bytes - 1}), "workspace.bytes");
  plan.workspace_bytes -= 1;
  expect_refused(gnn::run(plan, from.view(), to, {workspace->data(), plan.workspace_bytes}), "plan.workspace_bytes");
}

INSTANTIATE_TEST_SUITE_P(On, Transpositions, kDevices, device_name);

TEST(TranspositionRefusals, NameTheArgument) {
  rtopk::gnn::TranspositionPlan plan;
  expect_refused(gnn::make_plan(rtopk::gnn::Transposition{.rows = -1}, plan), "rows");
  expect_refused(gnn::make_plan(rtopk::gnn::Transposition{.graph_index_type = IndexType::u8}, plan),
                 "graph_index_type");
  constexpr std::int64_t kMax = std::int64_t{1} << 59;
  const rtopk::gnn::Transposition most{.rows = kMax, .nodes = kMax, .edges = kMax, .graph_index_type = IndexType::i64};
  ASSERT_TRUE(gnn::make_plan(most, plan).ok());
  expect_refused(gnn::run(plan, {}, {}), "graph.row_starts");
  expect_refused(gnn::make_plan(rtopk::gnn::Transposition{.edges = kMax + 1, .graph_index_type = IndexType::i64}, plan),
                 "edges");
  ASSERT_TRUE(gnn::make_plan(rtopk::gnn::Transposition{.rows = 1, .nodes = 1, .edges = 1}, plan).ok());
  std::int32_t starts[2] = {0, 1};
  std::int32_t columns[1] = {0};
  std::int32_t to[3] = {};
  expect_refused(gnn::run(plan, {starts, nullptr}, {to, to + 2}), "graph.columns");
  expect_refused(gnn::run(plan, {starts, columns}, {to, nullptr}), "transposed.columns");
  expect_refused(gnn::run(plan, {starts, columns}, {starts, to}), "transposed.row_starts");
  EXPECT_TRUE(gnn::run(plan, {starts, columns}, {to, to + 2}).ok());
}

}  // namespace
}  // namespace rtopk_test
