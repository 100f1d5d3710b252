// SIMD kernel of aggregations over dense rows, compiled for every instruction set. Products and additions are rounded
// one by one, in the order of the edges, as in aggregate.cpp: the bits do not depend on the vectors.
#include <algorithm>
#include <cstdint>

#include "cpu/aggregate/aggregate.hpp"
#include "cpu/aggregate/typed_graph.hpp"
#include "cpu/runtime/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/aggregate/dense_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rtopk::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
// Vectors of sums in flight: half of the registers.
constexpr int kVectors = HWY_ARCH_ARM ? 16 : 8;

/// The edges [first, last) of a row, and what its sums are multiplied with.
struct Edges {
  std::int64_t first;
  std::int64_t last;
  float scale;
};

/// kCount vectors of a row of Y. `x` and `y` begin at their first column.
template <int kCount, class Index>
HWY_INLINE void SumVectors(const GraphOf<Index>& graph, const Edges& edges, const float* x, std::int64_t cols,
                           float* y) {
  const D d;
  V sums[kCount];
  for (int i = 0; i < kCount; ++i) sums[i] = hn::Zero(d);
  for (std::int64_t edge = edges.first; edge < edges.last; ++edge) {
    if (edge + kPrefetchEdges < graph.edges && graph.has_node(edge + kPrefetchEdges)) {
      prefetch(x + graph.columns[edge + kPrefetchEdges] * cols,
               kCount * kLanes * static_cast<std::int64_t>(sizeof(float)));
    }
    if (!graph.has_node(edge)) continue;
    const float* row = x + graph.columns[edge] * cols;
    const V weight = hn::Set(d, graph.weight(edge));
    for (int i = 0; i < kCount; ++i) {
      sums[i] = hn::Add(sums[i], hn::Mul(weight, hn::LoadU(d, row + i * kLanes)));
    }
  }
  const V scale = hn::Set(d, edges.scale);
  for (int i = 0; i < kCount; ++i) hn::StoreU(hn::Mul(sums[i], scale), d, y + i * kLanes);
}

template <class Index>
HWY_INLINE void SumColumn(const GraphOf<Index>& graph, const Edges& edges, const float* x, std::int64_t cols,
                          float* y) {
  float sum = 0.0f;
  for (std::int64_t edge = edges.first; edge < edges.last; ++edge) {
    if (graph.has_node(edge)) sum += graph.weight(edge) * x[graph.columns[edge] * cols];
  }
  *y = sum * edges.scale;
}

template <class Index>
void Aggregate(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, std::int64_t begin,
               std::int64_t end) {
  const gnn::Aggregation& p = plan.problem;
  const auto graph = graph_of<Index>(call.graph, p, p.nodes);
  const auto* x = static_cast<const float*>(call.values);
  for (std::int64_t row = begin; row < end; ++row) {
    float* y = static_cast<float*>(call.result) + row * p.cols;
    const std::int64_t first = graph.begin(row);
    const std::int64_t last = graph.end(row);
    const float scale = p.mean ? 1.0f / static_cast<float>(std::max<std::int64_t>(last - first, 1)) : 1.0f;
    const Edges edges{first, last, scale};
    std::int64_t col = 0;
    for (; col + kVectors * kLanes <= p.cols; col += kVectors * kLanes) {
      SumVectors<kVectors>(graph, edges, x + col, p.cols, y + col);
    }
    for (; col + kLanes <= p.cols; col += kLanes) SumVectors<1>(graph, edges, x + col, p.cols, y + col);
    for (; col < p.cols; ++col) SumColumn(graph, edges, x + col, p.cols, y + col);
  }
}

}  // namespace

void AggregateDense(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, std::int64_t begin,
                    std::int64_t end) {
  if (plan.problem.graph_index_type == IndexType::i64) return Aggregate<std::int64_t>(plan, call, begin, end);
  Aggregate<std::int32_t>(plan, call, begin, end);
}

}  // namespace rtopk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtopk::cpu {

HWY_EXPORT(AggregateDense);

void aggregate_dense(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, std::int64_t begin,
                     std::int64_t end, float*) {
  HWY_DYNAMIC_DISPATCH(AggregateDense)(plan, call, begin, end);
}

}  // namespace rtopk::cpu
#endif
