// Plans of aggregations: errors of problems, calls and plans, and the plans for GPUs, which need not exist here.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include <rtopk/gnn/aggregate.hpp>
#include <rtopk/rtopk.hpp>

#include "refusals.hpp"

namespace rtopk_test {

namespace gnn = rtopk::gnn;
namespace {

using rtopk::DType;
using rtopk::IndexType;

/// Returns a check: after a change to a valid call, run() must return an error that names the argument.
auto refusals_of(const gnn::AggregationPlan& plan, const rtopk::gnn::AggregationCall& sound,
                 rtopk::Workspace workspace) {
  return [=](const char* argument, const std::function<void(rtopk::gnn::AggregationCall&)>& change) {
    rtopk::gnn::AggregationCall call = sound;
    change(call);
    expect_refused(gnn::run(plan, call, workspace), argument);
  };
}

TEST(AggregateRefusals, Problems) {
  const gnn::Aggregation sound{.rows = 3, .nodes = 4, .edges = 5, .cols = 64, .k = 8};
  gnn::AggregationPlan plan;
  ASSERT_TRUE(gnn::make_plan(sound, plan).ok());
  const gnn::AggregationPlan before = plan;
  const auto refused = [&](const char* argument, const std::function<void(gnn::Aggregation&)>& change) {
    gnn::Aggregation problem = sound;
    change(problem);
    expect_refused(gnn::make_plan(problem, plan), argument);
    EXPECT_EQ(plan, before) << argument;
  };
  refused("rows", [](gnn::Aggregation& p) { p.rows = -1; });
  refused("nodes", [](gnn::Aggregation& p) { p.nodes = -1; });
  refused("edges", [](gnn::Aggregation& p) { p.edges = -1; });
  refused("rows", [](gnn::Aggregation& p) {
    p.rows = std::int64_t{1} << 58;
    p.graph_index_type = IndexType::i64;
  });
  refused("cols", [](gnn::Aggregation& p) { p.cols = 0; });
  refused("cols", [](gnn::Aggregation& p) { p.cols = 65537; });
  refused("k", [](gnn::Aggregation& p) { p.k = 0; });
  refused("k", [](gnn::Aggregation& p) { p.k = 65; });
  refused("dtype", [](gnn::Aggregation& p) { p.dtype = DType::f64; });
  refused("selector_type", [](gnn::Aggregation& p) { p.selector_type = IndexType::i32; });
  refused("selector_type", [](gnn::Aggregation& p) { p.cols = 257; });
  refused("graph_index_type", [](gnn::Aggregation& p) { p.graph_index_type = IndexType::u16; });
  refused("graph_index_type", [](gnn::Aggregation& p) { p.edges = std::int64_t{1} << 31; });
  refused("term", [](gnn::Aggregation& p) { p.term = static_cast<gnn::AggregationTerm>(2); });
  refused("device", [](gnn::Aggregation& p) { p.device.kind = static_cast<rtopk::DeviceKind>(7); });
  refused("device.ordinal", [](gnn::Aggregation& p) { p.device.ordinal = 1; });
  for (const std::int32_t threads : {0, -4}) {
    expect_refused(gnn::make_plan(sound, {.threads = threads}, plan), "traits.threads");
  }
}

// Every size in bytes fits in 63 bits; otherwise a sanitizer reports it.
TEST(AggregateRefusals, AtTheLimitsMemoryIsMissingAndNothingElse) {
  constexpr std::int64_t kMax = std::int64_t{1} << 59;
  const gnn::Aggregation most{.rows = kMax, .nodes = kMax, .edges = kMax, .cols = 1, .k = 1};
  for (const gnn::AggregationTerm term : {gnn::AggregationTerm::forward, gnn::AggregationTerm::backward}) {
    gnn::Aggregation problem = most;
    problem.term = term;
    problem.graph_index_type = IndexType::i64;
    gnn::AggregationPlan plan;
    const rtopk::Status status = gnn::make_plan(problem, plan);
    ASSERT_TRUE(status.ok()) << status.text();
    expect_refused(gnn::run(plan, {}), plan.needs_transposed() ? "transposed.row_starts" : "graph.row_starts");
    for (std::int64_t* size : {&problem.rows, &problem.nodes, &problem.edges}) {
      ++*size;
      EXPECT_FALSE(gnn::make_plan(problem, plan).ok());
      --*size;
    }
  }
}

TEST(AggregateRefusals, CallsAndPlans) {
  const gnn::Aggregation problem{.rows = 3, .nodes = 4, .edges = 5, .cols = 64, .k = 8, .weighted = true};
  gnn::AggregationPlan plan;
  ASSERT_TRUE(gnn::make_plan(problem, plan).ok());
  alignas(8) static std::byte memory[8][1024];
  std::memset(memory, 0, sizeof memory);
  const auto* weights = reinterpret_cast<const float*>(memory[2]);
  const rtopk::gnn::AggregationCall sound{
      .graph = {memory[0], memory[1], weights}, .values = memory[3], .selectors = memory[4], .result = memory[5]};
  std::vector<std::byte> space(plan.workspace_bytes);
  const rtopk::Workspace workspace{space.data(), space.size()};
  ASSERT_TRUE(gnn::run(plan, sound, workspace).ok());
  const auto refused = refusals_of(plan, sound, workspace);
  refused("graph.row_starts", [](auto& call) { call.graph.row_starts = nullptr; });
  refused("graph.columns", [](auto& call) { call.graph.columns = nullptr; });
  refused("graph.weights", [](auto& call) { call.graph.weights = nullptr; });
  refused("values", [](auto& call) { call.values = nullptr; });
  refused("selectors", [](auto& call) { call.selectors = nullptr; });
  refused("result", [](auto& call) { call.result = nullptr; });
  refused("values", [](auto& call) { call.values = memory[3] + 1; });
  refused("graph.columns", [](auto& call) { call.graph.columns = memory[1] + 2; });
  refused("result", [](auto& call) { call.result = memory[3] + 16; });
  expect_refused(gnn::run(plan, sound, {}), "workspace");
  expect_refused(gnn::run(plan, sound, {space.data(), space.size() - 1}), "workspace");
  const rtopk::Executor no_function{};
  rtopk::Launch launch;
  launch.executor = &no_function;
  expect_refused(gnn::run(plan, sound, workspace, launch), "launch.executor");

  const auto refused_plan = [&](const char* argument, const std::function<void(gnn::AggregationPlan&)>& change) {
    gnn::AggregationPlan changed = plan;
    change(changed);
    expect_refused(gnn::run(changed, sound, workspace), argument);
  };
  refused_plan("plan.family", [](auto& p) { p.family = rtopk::gnn::AggregationFamily::cpu_gather; });
  refused_plan("plan.threads", [](auto& p) { p.threads = 0; });
  refused_plan("plan.threads", [](auto& p) { p.workspace_bytes = 0; });
  refused_plan("k", [](auto& p) { p.problem.k = 0; });
}

TEST(AggregatePlans, NumbersForGpus) {
  const rtopk::Traits traits{.device = {rtopk::DeviceKind::cuda, 0}};
  const auto planned = [&](const gnn::Aggregation& problem) {
    gnn::AggregationPlan plan;
    EXPECT_TRUE(gnn::make_plan(problem, traits, plan).ok());
    return plan;
  };
  const auto refused = [](gnn::AggregationPlan plan, const char* argument, const auto& change) {
    change(plan);
    expect_refused(gnn::run(plan, {}, {}), argument);
  };
  gnn::Aggregation problem{
      .rows = 100000, .nodes = 100000, .edges = 1000000, .cols = 256, .k = 32, .device = traits.device};
  const gnn::AggregationPlan forward = planned(problem);
  EXPECT_EQ(forward.edges_at_once, 2);
  problem.term = gnn::AggregationTerm::backward;
  const gnn::AggregationPlan backward = planned(problem);
  EXPECT_EQ(backward.elements_per_sweep, 32);
  // Sums of all elements would not fit in the cache, and nodes have many edges.
  problem.k = 256;
  problem.edges = 100000000;
  EXPECT_EQ(planned(problem).elements_per_sweep, 64);

  refused(forward, "plan.edges_at_once", [](auto& plan) { plan.edges_at_once = 3; });
  refused(forward, "plan.edges_at_once", [](auto& plan) {
    plan.window_cols = 1024;
    plan.edges_at_once = 4;
  });
  refused(forward, "plan.threads, shared_bytes", [](auto& plan) { plan.edges_at_once = 4; });
  refused(backward, "plan.elements_per_sweep", [](auto& plan) { plan.elements_per_sweep = 0; });
  refused(backward, "plan.elements_per_sweep", [](auto& plan) { plan.elements_per_sweep = 6; });
  refused(backward, "plan.elements_per_sweep", [](auto& plan) { plan.elements_per_sweep = 36; });
}

TEST(AggregateRefusals, CallsOfABackwardPass) {
  const gnn::Aggregation problem{.term = gnn::AggregationTerm::backward,
                                 .rows = 3,
                                 .nodes = 4,
                                 .edges = 5,
                                 .cols = 64,
                                 .k = 8,
                                 .weighted = true,
                                 .mean = true};
  gnn::AggregationPlan plan;
  ASSERT_TRUE(gnn::make_plan(problem, plan).ok());
  alignas(8) static std::byte memory[8][1024];
  std::memset(memory, 0, sizeof memory);
  const rtopk::gnn::AggregationCall sound{
      .graph = {memory[0], nullptr, nullptr},
      .transposed = {memory[1], memory[2], reinterpret_cast<const float*>(memory[3])},
      .selectors = memory[4],
      .gradient = memory[5],
      .result = memory[6]};
  std::vector<std::byte> space(plan.workspace_bytes);
  const rtopk::Workspace workspace{space.data(), space.size()};
  ASSERT_TRUE(gnn::run(plan, sound, workspace).ok());
  const auto refused = refusals_of(plan, sound, workspace);
  refused("graph.row_starts", [](auto& call) { call.graph.row_starts = nullptr; });
  refused("transposed.row_starts", [](auto& call) { call.transposed.row_starts = nullptr; });
  refused("transposed.columns", [](auto& call) { call.transposed.columns = nullptr; });
  refused("transposed.weights", [](auto& call) { call.transposed.weights = nullptr; });
  refused("selectors", [](auto& call) { call.selectors = nullptr; });
  refused("gradient", [](auto& call) { call.gradient = nullptr; });
  refused("gradient", [](auto& call) { call.gradient = memory[5] + 2; });
  refused("result", [](auto& call) { call.result = nullptr; });
  refused("result overlaps gradient", [](auto& call) { call.result = memory[5] + 64; });
  refused("result overlaps selectors", [](auto& call) { call.result = memory[4]; });
  expect_refused(gnn::run(plan, sound, {memory[6], plan.workspace_bytes}), "workspace overlaps result");
}

TEST(AggregateRefusals, OfAGpuWhereItWasNotBuilt) {
  if (rtopk::build_info().cuda) GTEST_SKIP() << "this build has CUDA";
  const rtopk::Device gpu{rtopk::DeviceKind::cuda, 0};
  const gnn::Aggregation problem{.rows = 3, .nodes = 4, .edges = 5, .cols = 64, .k = 8, .device = gpu};
  gnn::AggregationPlan plan;
  expect_refused(gnn::make_plan(problem, plan), "device is cuda");
  ASSERT_TRUE(gnn::make_plan(problem, {.device = gpu}, plan).ok());  // planning needs no backend
  alignas(16) static std::byte memory[5][4096];
  std::vector<std::byte> workspace(plan.workspace_bytes);
  const gnn::AggregationCall call{
      .graph = {memory[0], memory[1]}, .values = memory[2], .selectors = memory[3], .result = memory[4]};
  const rtopk::Status status = gnn::run(plan, call, {workspace.data(), workspace.size()});
  EXPECT_EQ(status.code(), rtopk::StatusCode::not_supported) << status.text();
  rtopk::gnn::TranspositionPlan transposition;
  expect_refused(gnn::make_plan(rtopk::gnn::Transposition{.device = gpu}, transposition), "device is cuda");
}

TEST(AggregateRefusals, OfPlansForAGpu) {
  const rtopk::Traits traits{.device = {rtopk::DeviceKind::cuda, 0}};
  for (const gnn::AggregationTerm term : {gnn::AggregationTerm::forward, gnn::AggregationTerm::backward}) {
    for (const bool deterministic : {false, true}) {
      const gnn::Aggregation problem{.term = term,
                                     .rows = 1 << 20,
                                     .nodes = 1 << 20,
                                     .edges = 1 << 24,
                                     .cols = 300,
                                     .k = 8,
                                     .selector_type = IndexType::u16,
                                     .deterministic = deterministic,
                                     .device = traits.device};
      gnn::AggregationPlan plan;
      ASSERT_TRUE(gnn::make_plan(problem, traits, plan).ok());
      const auto refused = [&](const char* argument, const std::function<void(gnn::AggregationPlan&)>& change) {
        gnn::AggregationPlan changed = plan;
        change(changed);
        expect_refused(gnn::run(changed, {}), argument);
      };
      refused("plan.family", [](auto& p) { p.family = rtopk::gnn::AggregationFamily::cpu_rows; });
      if (deterministic && term == gnn::AggregationTerm::backward) {
        refused("plan.family", [](auto& p) { p.family = rtopk::gnn::AggregationFamily::cuda_stream_scatter; });
      }
      refused("plan.rows_per_worker", [](auto& p) { p.rows_per_worker = 0; });
      refused("plan.rows_per_worker", [](auto& p) { p.rows_per_worker = 33; });
      refused("plan.piece_edges", [](auto& p) { p.piece_edges = 0; });
      refused("plan.piece_edges", [](auto& p) { p.piece_edges = 16; });
      refused("plan.piece_edges", [](auto& p) { p.piece_edges = 300; });
      refused("plan.piece_edges", [](auto& p) { p.piece_edges = std::int64_t{1} << 40; });
      refused("plan.piece_edges", [](auto& p) {  // 2^31 pieces
        p.piece_edges = 32;
        p.short_edges = 0;
        p.problem.edges = std::int64_t{1} << 36;
        p.problem.graph_index_type = IndexType::i64;
      });
      refused("plan.short_edges", [](auto& p) { p.short_edges = -1; });
      refused("plan.short_edges", [](auto& p) { p.short_edges = 2 * p.piece_edges; });
      if (term == gnn::AggregationTerm::forward) {
        refused("plan.window_cols", [](auto& p) { p.window_cols = 128; });
        refused("plan.window_cols", [](auto& p) { p.window_cols = 300; });
      }
      refused("plan.threads", [](auto& p) { p.threads = 256; });
      refused("plan.threads", [](auto& p) { p.shared_bytes += 4; });
      refused("plan.threads", [](auto& p) { p.workspace_bytes += 1; });
      // A plan of another problem.
      if (!plan.needs_transposed() && term == gnn::AggregationTerm::forward) {
        refused("plan.threads", [](auto& p) { p.problem.edges *= 2; });
      }
    }
  }
}

// run() accepts every plan of make_plan: the only error is the missing memory.
TEST(AggregatePlans, ForGpusAreSoundUpToTheLimits) {
  const rtopk::Traits traits{.device = {rtopk::DeviceKind::cuda, 0}};
  constexpr std::int64_t kMaxRows = 0x7fffffff;
  constexpr std::int64_t kMaxEdges = std::int64_t{1} << 39;
  for (const gnn::AggregationTerm term : {gnn::AggregationTerm::forward, gnn::AggregationTerm::backward}) {
    for (const bool deterministic : {false, true}) {
      for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{1} << 27, kMaxRows}) {
        for (const std::int64_t edges : {std::int64_t{0}, std::int64_t{1000}, kMaxEdges}) {
          gnn::Aggregation problem{.term = term,
                                   .rows = rows,
                                   .nodes = rows,
                                   .edges = edges,
                                   .cols = 65536,
                                   .k = 65536,
                                   .dtype = DType::f16,
                                   .selector_type = IndexType::u16,
                                   .graph_index_type = IndexType::i64,
                                   .deterministic = deterministic,
                                   .device = traits.device};
          gnn::AggregationPlan plan;
          rtopk::Status status = gnn::make_plan(problem, traits, plan);
          ASSERT_TRUE(status.ok()) << status.text();
          const char* missing = plan.needs_transposed() ? "transposed.row_starts" : "graph.row_starts";
          expect_refused(gnn::run(plan, {}), missing);
          for (std::int64_t* size : {&problem.rows, &problem.nodes, &problem.edges}) {
            const std::int64_t before = *size;
            *size = (size == &problem.edges ? kMaxEdges : kMaxRows) + 1;
            gnn::AggregationPlan too_large = plan;
            status = gnn::make_plan(problem, traits, too_large);
            EXPECT_EQ(status.code(), rtopk::StatusCode::not_supported) << status.text();
            EXPECT_EQ(too_large, plan);
            too_large.problem = problem;
            expect_refused(gnn::run(too_large, {}), "rows");
            *size = before;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace rtopk_test
