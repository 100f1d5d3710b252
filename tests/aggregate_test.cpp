// Aggregations in both directions, on every device of this machine: against f64 sums, within the error of f32
// additions, and with guarded memory. For errors see aggregate_plans_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include <rtopk/gnn/aggregate.hpp>

#include "encoding.hpp"
#include "executors.hpp"
#include "graph.hpp"
#include "on_device.hpp"
#include "random.hpp"

namespace rtopk_test {

namespace gnn = rtopk::gnn;
namespace {

using rtopk::DType;
using rtopk::IndexType;

/// A problem with its inputs.
struct Instance {
  gnn::Aggregation problem;
  TestGraph graph;
  TestGraph transposed;
  std::vector<std::int64_t> selectors;
  std::vector<float> elements;  ///< forward: values; backward: the gradient. Rounded to the dtype.

  Instance(gnn::Aggregation wanted, TestGraph made, Random& random)
      : problem(wanted), graph(std::move(made)), transposed(transpose(graph)) {
    problem.rows = graph.rows();
    problem.nodes = graph.nodes;
    problem.edges = graph.edges();
    std::vector<std::int64_t> columns(static_cast<std::size_t>(problem.cols));
    std::iota(columns.begin(), columns.end(), std::int64_t{0});
    for (std::int64_t node = 0; node < problem.nodes; ++node) {
      const auto begin = std::ssize(selectors);
      for (std::int64_t i = 0; i < problem.k; ++i) {  // the first k of a random permutation
        std::swap(columns[static_cast<std::size_t>(i)],
                  columns[static_cast<std::size_t>(random.between(i, problem.cols - 1))]);
        selectors.push_back(columns[static_cast<std::size_t>(i)]);
      }
      std::sort(selectors.begin() + begin, selectors.end());
    }
    const bool forward = problem.term == gnn::AggregationTerm::forward;
    elements.resize(static_cast<std::size_t>(forward ? problem.nodes * problem.k : problem.rows * problem.cols));
    for (float& x : elements) x = static_cast<float>(random.normal());
    elements = decode(encode(elements, problem.dtype), problem.dtype);
  }

  [[nodiscard]] std::int64_t results() const {
    return problem.term == gnn::AggregationTerm::forward ? problem.rows * problem.cols : problem.nodes * problem.k;
  }
};

/// A sum in f64, and what bounds the error of an f32 sum: the sum of magnitudes and the number of terms.
struct Sum {
  double value = 0.0;
  double magnitude = 0.0;
  std::int64_t terms = 0;

  void add(double x) {
    value += x;
    magnitude += std::abs(x);
    ++terms;
  }
};

std::vector<Sum> reference(const Instance& instance) {
  const gnn::Aggregation& p = instance.problem;
  const TestGraph& graph = instance.graph;
  std::vector<Sum> sums(static_cast<std::size_t>(instance.results()));
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const std::int64_t begin = graph.row_starts[static_cast<std::size_t>(row)];
    const std::int64_t end = graph.row_starts[static_cast<std::size_t>(row) + 1];
    for (std::int64_t edge = begin; edge < end; ++edge) {
      if (!graph.has_node(edge)) continue;
      const std::int64_t node = graph.columns[static_cast<std::size_t>(edge)];
      double weight = p.weighted ? graph.weights[static_cast<std::size_t>(edge)] : 1.0;
      if (p.mean) weight /= static_cast<double>(end - begin);
      for (std::int64_t at = node * p.k; at < (node + 1) * p.k; ++at) {
        const std::int64_t selector = instance.selectors[static_cast<std::size_t>(at)];
        if (selector >= p.cols) continue;
        const std::int64_t feature = row * p.cols + selector;
        const bool forward = p.term == gnn::AggregationTerm::forward;
        sums[static_cast<std::size_t>(forward ? feature : at)].add(
            weight * static_cast<double>(instance.elements[static_cast<std::size_t>(forward ? at : feature)]));
      }
    }
  }
  return sums;
}

/// Half a unit in the last place, relative to the value.
double rounding(DType dtype) { return dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8; }

/// The first result whose error exceeds that of its additions, products and final rounding; empty if there is none.
std::string first_wrong(const Instance& instance, const std::vector<float>& results) {
  const std::vector<Sum> expected = reference(instance);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Sum& sum = expected[i];
    const double lost = (static_cast<double>(sum.terms) + 4.0) * 0x1p-24 * sum.magnitude;
    const double bound = lost + rounding(instance.problem.dtype) * (std::abs(sum.value) + lost) + 0x1p-25;
    if (std::abs(static_cast<double>(results[i]) - sum.value) <= bound) continue;
    return "result " + std::to_string(i) + " is " + std::to_string(results[i]) + ", not " + std::to_string(sum.value) +
           " within " + std::to_string(bound);
  }
  return "";
}

/// Sets edges_at_once: each of a block's four warps has a sum for every column and edge.
void add_at_once(gnn::AggregationPlan& plan, std::int64_t edges) {
  plan.shared_bytes += static_cast<std::size_t>(4 * plan.window_cols * (edges - plan.edges_at_once)) * sizeof(float);
  plan.edges_at_once = edges;
}

class Aggregate : public OnDevice {
 protected:
  struct Options {
    std::size_t misalignment = 0;  ///< Elements past a multiple of 64 bytes, for element-aligned memory.
    std::int32_t threads = 2;      ///< CPU.
    const rtopk::Executor* executor = nullptr;
    std::function<void(gnn::AggregationPlan&)> change = [](gnn::AggregationPlan&) {};
  };

  /// The result of a run. Fails if the run writes outside of it.
  [[nodiscard]] Bytes run(const Instance& instance, const Options& options) const {
    auto plan = plan_of<gnn::AggregationPlan>(instance.problem, options.threads);
    options.change(plan);
    const gnn::Aggregation& problem = plan.problem;

    const std::size_t shift = options.misalignment * rtopk::size_of(problem.dtype);
    const GraphMemory graph(GetParam(), instance.graph, problem.graph_index_type);
    const GraphMemory transposed(GetParam(), instance.transposed, problem.graph_index_type);
    const auto selectors = memory(encode(instance.selectors, problem.selector_type),
                                  options.misalignment * rtopk::size_of(problem.selector_type));
    const auto elements = memory(encode(instance.elements, problem.dtype), shift);
    // Poison: detects code that relies on zeros or does not write every result.
    const auto results = memory(
        Bytes(static_cast<std::size_t>(instance.results()) * rtopk::size_of(problem.dtype), std::byte{0xff}), shift);
    const auto workspace = memory(Bytes(plan.workspace_bytes, std::byte{0xff}), 1);

    rtopk::gnn::AggregationCall call{.graph = graph.view(), .transposed = transposed.view()};
    (problem.term == gnn::AggregationTerm::forward ? call.values : call.gradient) = elements->data();
    call.selectors = selectors->data();
    call.result = results->data();
    rtopk::Launch launch;
    launch.executor = options.executor;
    const rtopk::Status status = gnn::run(plan, call, {workspace->data(), plan.workspace_bytes}, launch);
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(results->damage(), "") << "result";
    EXPECT_EQ(workspace->damage(), "") << "workspace";
    return results->content();
  }
  [[nodiscard]] Bytes run(const Instance& instance) const { return run(instance, Options{}); }

  void expect_right(const Instance& instance, const Options& options) const {
    const gnn::Aggregation& p = instance.problem;
    SCOPED_TRACE(testing::Message() << name(p.term) << ", " << p.rows << " rows, " << p.nodes << " nodes, " << p.edges
                                    << " edges, " << p.cols << " columns, k " << p.k << ", " << name(p.dtype) << ", "
                                    << name(p.selector_type) << ", " << name(p.graph_index_type) << ", weighted "
                                    << p.weighted << ", mean " << p.mean << ", deterministic " << p.deterministic);
    EXPECT_EQ(first_wrong(instance, decode(run(instance, options), p.dtype)), "");
  }
  void expect_right(const Instance& instance) const { expect_right(instance, Options{}); }
};

TEST_P(Aggregate, SumsAreRight) {
  Random random(seed() + 200);
  for (std::int64_t i = 0; i < scaled(160); ++i) {
    gnn::Aggregation p{.term = random.coin() ? gnn::AggregationTerm::forward : gnn::AggregationTerm::backward};
    p.selector_type = random.coin() ? IndexType::u8 : IndexType::u16;
    const std::vector<std::int64_t> widths = p.selector_type == IndexType::u8
                                                 ? std::vector<std::int64_t>{1, 7, 64, 200, 256}
                                                 : std::vector<std::int64_t>{5, 256, 300, 1000, 2500};
    p.cols = random.pick(widths);
    const std::vector<std::int64_t> kept{std::min<std::int64_t>(32, p.cols),
                                         random.between(1, std::min<std::int64_t>(p.cols, 300)),
                                         std::min<std::int64_t>(p.cols, 300)};  // mostly all columns: dense rows
    p.k = random.pick(kept);
    p.dtype = random.pick(std::vector{DType::f32, DType::f16, DType::bf16});
    p.graph_index_type = random.coin() ? IndexType::i32 : IndexType::i64;
    p.weighted = random.coin();
    p.mean = random.coin();
    p.deterministic = random.coin();
    const std::vector<std::int64_t> degrees =
        random_degrees(random.between(1, 60), random.pick(std::vector{5, 90, 700}), random);
    Options options;
    options.misalignment = static_cast<std::size_t>(random.between(0, 3));
    expect_right({p, graph_of(degrees, random.between(1, 80), random), random}, options);
  }
}

TEST_P(Aggregate, HubsAreRight) {
  Random random(seed() + 201);
  for (const gnn::AggregationTerm term : {gnn::AggregationTerm::forward, gnn::AggregationTerm::backward}) {
    for (const bool deterministic : {false, true}) {
      const gnn::Aggregation p{.term = term, .cols = 64, .k = 16, .deterministic = deterministic};
      // One row, then one node, with nearly all edges.
      expect_right({p, graph_of({3, 100000, 0, 2, 40}, 50, random), random});
      expect_right({p, graph_of(random_degrees(3000, 200, random), 2, random), random});
      // Rows of all lengths among many empty ones.
      std::vector<std::int64_t> rare(4000, 0);
      for (int i = 0; i < 20; ++i) rare[static_cast<std::size_t>(random.between(0, 3999))] = random.between(1, 2000);
      expect_right({p, graph_of(rare, 50, random), random});
    }
  }
}

TEST_P(Aggregate, SmallestGraphs) {
  Random random(seed() + 202);
  for (const gnn::AggregationTerm term : {gnn::AggregationTerm::forward, gnn::AggregationTerm::backward}) {
    for (const bool deterministic : {false, true}) {
      for (const bool mean : {false, true}) {
        const gnn::Aggregation p{.term = term, .cols = 40, .k = 3, .mean = mean, .deterministic = deterministic};
        expect_right({p, graph_of({0, 0, 0}, 4, random), random});  // no edges
        expect_right({p, graph_of({1}, 1, random), random});        // a node with a loop
        expect_right({p, graph_of({5}, 1, random), random});        // the same edge repeated
        expect_right({p, graph_of({}, 3, random), random});         // no rows
        expect_right(
            {p, TestGraph{.nodes = 0, .row_starts = {0, 0}, .columns = {}, .weights = {}}, random});  // no nodes
        TestGraph nowhere{.nodes = 0, .row_starts = {0, 2}, .columns = {0, 5}, .weights = {1.0f, 1.0f}};
        expect_right({p, nowhere, random});  // edges whose column is out of range
      }
    }
  }
}

TEST_P(Aggregate, WhatDoesNotExistAddsNothing) {
  Random random(seed() + 203);
  for (const gnn::AggregationTerm term : {gnn::AggregationTerm::forward, gnn::AggregationTerm::backward}) {
    for (const std::int64_t cols : {200, 201, 3000}) {
      const IndexType selector_type = cols == 200 ? IndexType::u8 : IndexType::u16;
      for (const bool deterministic : {false, true}) {
        const gnn::Aggregation p{
            .term = term, .cols = cols, .k = 20, .selector_type = selector_type, .deterministic = deterministic};
        TestGraph graph = graph_of(random_degrees(40, 600, random), 30, random);
        for (std::int64_t& column : graph.columns) {
          if (random.between(0, 9) == 0) column = random.coin() ? random.between(30, 40) : -random.between(1, 1 << 30);
        }
        Instance instance(p, graph, random);
        // The last selectors of some nodes are out of range, and still ascend.
        for (std::int64_t node = 0; node < 30; node += 3) {
          for (std::int64_t i = 15; i < 20; ++i) {
            instance.selectors[static_cast<std::size_t>(node * 20 + i)] = cols + 20 + i;
          }
        }
        expect_right(instance);
      }
    }
  }
}

TEST_P(Aggregate, RowStartsThatMakeNoSenseStayInMemory) {
  Random random(seed() + 204);
  for (const gnn::AggregationTerm term : {gnn::AggregationTerm::forward, gnn::AggregationTerm::backward}) {
    for (const bool deterministic : {false, true}) {
      const IndexType index = random.coin() ? IndexType::i32 : IndexType::i64;
      const gnn::Aggregation p{.term = term,
                               .cols = 64,
                               .k = random.coin() ? 8 : 64,  // 64: dense rows
                               .graph_index_type = index,
                               .mean = true,
                               .deterministic = deterministic};
      const Instance sound(p, graph_of(random_degrees(50, 900, random), 30, random), random);
      const std::vector<std::int64_t> senseless{-1, -(1 << 30),         1 << 30, sound.graph.edges() + 1,
                                                0,  sound.graph.edges()};
      for (int i = 0; i < 10; ++i) {
        Instance broken = sound;
        for (auto* starts : {&broken.graph.row_starts, &broken.transposed.row_starts}) {
          for (int j = 0; j < 5; ++j) {
            (*starts)[static_cast<std::size_t>(random.between(0, std::ssize(*starts) - 1))] = random.pick(senseless);
          }
        }
        const std::vector<float> results = decode(run(broken), p.dtype);  // run() checks the guards
        if (GetParam() != rtopk::DeviceKind::cpu) continue;               // the content is undefined
        for (const float x : results) EXPECT_FALSE(std::isnan(x));
      }
    }
  }
}

TEST_P(Aggregate, SumsRepeatBitForBit) {
  Random random(seed() + 205);
  for (const gnn::AggregationTerm term : {gnn::AggregationTerm::forward, gnn::AggregationTerm::backward}) {
    const gnn::Aggregation p{.term = term, .cols = 256, .k = 32, .weighted = true, .deterministic = true};
    const Instance instance(p, graph_of(random_degrees(500, 3000, random), 300, random), random);
    const Bytes first = run(instance);
    EXPECT_EQ(run(instance), first);
    if (GetParam() != rtopk::DeviceKind::cpu) continue;
    for (const std::int32_t threads : {1, 3, 8}) {
      ThreadPerTask each;
      const rtopk::Executor executors[] = {backwards(), each.executor()};
      for (const rtopk::Executor& executor : executors) {
        Options options;
        options.threads = threads;
        options.executor = &executor;
        EXPECT_EQ(run(instance, options), first) << threads << " threads";
      }
    }
  }
}

TEST_P(Aggregate, SumsDoNotDependOnWhereMemoryBegins) {
  Random random(seed() + 208);
  for (const gnn::AggregationTerm term : {gnn::AggregationTerm::forward, gnn::AggregationTerm::backward}) {
    for (const std::int64_t k : {3, 7, 8}) {  // so small that one sweep over the edges suffices at any alignment
      const gnn::Aggregation p{.term = term, .cols = 200, .k = k, .deterministic = true};
      const Instance instance(p, graph_of(random_degrees(300, 700, random), 100, random), random);
      Options odd;
      odd.misalignment = 1;
      EXPECT_EQ(run(instance, odd), run(instance)) << name(term) << ", k " << k;
    }
  }
}

TEST_P(Aggregate, BlocksOfAnySizeAreRight) {
  if (GetParam() != rtopk::DeviceKind::cpu) GTEST_SKIP() << "of a GPU, ChangedPlansAreRight";
  Random random(seed() + 209);
  for (const gnn::AggregationTerm term : {gnn::AggregationTerm::forward, gnn::AggregationTerm::backward}) {
    const gnn::Aggregation p{.term = term, .cols = 20, .k = 5};
    const Instance instance(p, graph_of(random_degrees(50, 90, random), 40, random), random);
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{7}, std::numeric_limits<std::int64_t>::max()}) {
      Options options;
      options.change = [rows](gnn::AggregationPlan& plan) {
        plan.workspace_bytes += 4 * plan.scratch_bytes;
        plan.threads += 4;
        plan.rows_per_worker = rows;
      };
      expect_right(instance, options);
    }
  }
}

TEST_P(Aggregate, InfinitiesAndNaNsStayWhereTheyAre) {
  Random random(seed() + 206);
  const gnn::Aggregation p{.cols = 64, .k = 16};
  Instance instance(p, graph_of(random_degrees(30, 40, random), 20, random), random);
  for (std::int64_t i = 0; i < 16; ++i) {  // one node
    instance.elements[static_cast<std::size_t>(i)] = i % 2 == 0 ? INFINITY : NAN;
  }
  const std::vector<float> results = decode(run(instance), p.dtype);
  const std::vector<Sum> expected = reference(instance);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(std::isfinite(results[i]), std::isfinite(expected[i].value)) << i;
  }
}

TEST_P(Aggregate, ChangedPlansAreRight) {
  if (GetParam() != rtopk::DeviceKind::cuda) GTEST_SKIP() << "of a CPU, BlocksOfAnySizeAreRight";
  Random random(seed() + 207);
  for (const gnn::AggregationTerm term : {gnn::AggregationTerm::forward, gnn::AggregationTerm::backward}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      for (const std::int64_t cols : {100, 256, 300, 3000}) {
        for (const std::int64_t k : {1, 8, 15, 32, 50, 96}) {
          const gnn::Aggregation p{.term = term,
                                   .cols = cols,
                                   .k = k,
                                   .dtype = dtype,
                                   .selector_type = cols > 256 ? IndexType::u16 : IndexType::u8,
                                   .graph_index_type = random.coin() ? IndexType::i32 : IndexType::i64,
                                   .weighted = random.coin(),
                                   .mean = random.coin(),
                                   .deterministic = random.coin()};
          const Instance instance(p, graph_of(random_degrees(150, 900, random), 70, random), random);
          Options options;
          options.misalignment = random.coin() ? 1 : 0;
          options.change = [&random](gnn::AggregationPlan& plan) {
            plan.rows_per_worker = random.between(1, 32);
            plan.short_edges = random.between(0, 2 * plan.piece_edges - 1);
            if (plan.family == rtopk::gnn::AggregationFamily::cuda_stream) {
              add_at_once(plan, std::min<std::int64_t>(random.pick(std::vector{1, 2, 4}), 2048 / plan.window_cols));
            } else if (plan.family == rtopk::gnn::AggregationFamily::cuda_stream_scatter && plan.problem.k > 4) {
              plan.elements_per_sweep = random.between(1, plan.problem.k / 4) * 4;
            }
          };
          expect_right(instance, options);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(On, Aggregate, kDevices, device_name);

}  // namespace
}  // namespace rtopk_test
