// Aggregation on the CPU. Tasks take blocks of rows (backward: of nodes). One task sums a whole row in the order of its
// edges, so that the result does not depend on the number of threads.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "core/keys.hpp"
#include "cpu/aggregate/aggregate.hpp"
#include "cpu/aggregate/typed_graph.hpp"
#include "cpu/backend.hpp"
#include "cpu/runtime/floating_environment.hpp"
#include "cpu/runtime/threads.hpp"

namespace rtopk::cpu {
namespace {

constexpr std::int64_t kEdgesPerBlock = 4096;  // edges that a task takes at a time: about 100 us
constexpr std::int64_t kMaxRowsPerBlock = 1024;

inline float to_float(float x) { return x; }
inline float to_float(core::F16 x) { return float_from_f16(x.bits); }
inline float to_float(core::BF16 x) { return float_from_bf16(x.bits); }

template <class T>
T rounded(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else if constexpr (std::is_same_v<T, core::F16>) {
    return {f16_from_float(x)};
  } else {
    return {bf16_from_float(x)};
  }
}

/// Y = A X for rows [begin, end). `sums` has one element for every possible selector, even those >= cols.
template <class T, class Selector, class Index>
void aggregate_rows(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, std::int64_t begin,
                    std::int64_t end, float* sums) {
  const gnn::Aggregation& p = plan.problem;
  const auto graph = graph_of<Index>(call.graph, p, p.nodes);
  const auto* values = static_cast<const T*>(call.values);
  const auto* selectors = static_cast<const Selector*>(call.selectors);
  const std::int64_t k = p.k;
  std::fill_n(sums, p.cols, 0.0f);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t first = graph.begin(row);
    const std::int64_t last = graph.end(row);
    for (std::int64_t edge = first; edge < last; ++edge) {
      if (edge + kPrefetchEdges < graph.edges && graph.has_node(edge + kPrefetchEdges)) {
        const std::int64_t ahead = graph.columns[edge + kPrefetchEdges] * k;
        prefetch(values + ahead, k * static_cast<std::int64_t>(sizeof(T)));
        prefetch(selectors + ahead, k * static_cast<std::int64_t>(sizeof(Selector)));
      }
      if (!graph.has_node(edge)) continue;
      const T* x = values + graph.columns[edge] * k;
      const Selector* columns = selectors + graph.columns[edge] * k;
      const float weight = graph.weight(edge);
      for (std::int64_t i = 0; i < k; ++i) sums[columns[i]] += weight * to_float(x[i]);
    }
    const float scale = p.mean ? 1.0f / static_cast<float>(std::max<std::int64_t>(last - first, 1)) : 1.0f;
    T* y = static_cast<T*>(call.result) + row * p.cols;
    for (std::int64_t column = 0; column < p.cols; ++column) y[column] = rounded<T>(sums[column] * scale);
    std::fill_n(sums, p.cols, 0.0f);
  }
}

/// dX = A^T dY at the selectors, for nodes [begin, end). `sums` has k elements.
template <class T, class Selector, class Index>
void gather_nodes(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, std::int64_t begin,
                  std::int64_t end, float* sums) {
  const gnn::Aggregation& p = plan.problem;
  const auto graph = graph_of<Index>(call.transposed, p, p.rows);
  const auto forward_graph = graph_of<Index>(call.graph, p, p.nodes);  // for `mean`: its row starts give the degrees
  const auto* gradient = static_cast<const T*>(call.gradient);
  const auto* selectors = static_cast<const Selector*>(call.selectors);
  for (std::int64_t node = begin; node < end; ++node) {
    const Selector* columns = selectors + node * p.k;
    std::fill_n(sums, p.k, 0.0f);
    const bool within = std::all_of(columns, columns + p.k, [&](Selector column) { return column < p.cols; });
    for (std::int64_t edge = graph.begin(node); edge < graph.end(node); ++edge) {
      if (edge + kPrefetchEdges < graph.edges && graph.has_node(edge + kPrefetchEdges)) {
        prefetch(gradient + graph.columns[edge + kPrefetchEdges] * p.cols,
                 p.cols * static_cast<std::int64_t>(sizeof(T)));
      }
      if (!graph.has_node(edge)) continue;
      const std::int64_t row = graph.columns[edge];
      const T* dy = gradient + row * p.cols;
      float weight = graph.weight(edge);
      if (p.mean) {
        weight /= static_cast<float>(std::max<std::int64_t>(forward_graph.end(row) - forward_graph.begin(row), 1));
      }
      for (std::int64_t i = 0; i < p.k; ++i) {
        if (within || columns[i] < p.cols) sums[i] += weight * to_float(dy[columns[i]]);
      }
    }
    T* dx = static_cast<T*>(call.result) + node * p.k;
    for (std::int64_t i = 0; i < p.k; ++i) dx[i] = rounded<T>(sums[i]);
  }
}

template <class T, class Selector, class Index>
void run_block(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, std::int64_t begin, std::int64_t end,
               float* sums) {
  if (plan.problem.term == gnn::AggregationTerm::forward) {
    aggregate_rows<T, Selector, Index>(plan, call, begin, end, sums);
  } else {
    gather_nodes<T, Selector, Index>(plan, call, begin, end, sums);
  }
}

using RunBlock = void (*)(const gnn::AggregationPlan&, const gnn::AggregationCall&, std::int64_t, std::int64_t, float*);

template <class T>
RunBlock block_runner(const gnn::Aggregation& p) {
  const bool wide = p.graph_index_type == IndexType::i64;
  if (p.selector_type == IndexType::u8) {
    return wide ? run_block<T, std::uint8_t, std::int64_t> : run_block<T, std::uint8_t, std::int32_t>;
  }
  return wide ? run_block<T, std::uint16_t, std::int64_t> : run_block<T, std::uint16_t, std::int32_t>;
}

/// Whether every row of X selects all columns, in order: then its values are a dense row.
template <class Selector>
bool selects_all(const gnn::Aggregation& p, const void* selectors) {
  const auto* of_row = static_cast<const Selector*>(selectors);
  for (std::int64_t i = 0; i < p.k; ++i) {
    if (of_row[i] != i) return false;
  }
  const std::size_t bytes = static_cast<std::size_t>(p.k) * sizeof(Selector);
  for (std::int64_t node = 1; node < p.nodes; ++node) {
    if (std::memcmp(of_row + node * p.k, of_row, bytes) != 0) return false;
  }
  return true;
}

bool is_dense(const gnn::Aggregation& p, const gnn::AggregationCall& call) {
  if (p.term != gnn::AggregationTerm::forward || p.dtype != DType::f32) return false;
  if (p.k != p.cols || p.nodes == 0) return false;  // without nodes there may be no memory
  return p.selector_type == IndexType::u8 ? selects_all<std::uint8_t>(p, call.selectors)
                                          : selects_all<std::uint16_t>(p, call.selectors);
}

RunBlock block_runner_for(const gnn::Aggregation& p, const gnn::AggregationCall& call) {
  if (has_simd() && is_dense(p, call)) return aggregate_dense;
  if (p.dtype == DType::f16) return block_runner<core::F16>(p);
  if (p.dtype == DType::bf16) return block_runner<core::BF16>(p);
  return block_runner<float>(p);
}

std::int64_t rows_of(const gnn::Aggregation& p) { return p.term == gnn::AggregationTerm::forward ? p.rows : p.nodes; }

struct Job {
  const gnn::AggregationPlan& plan;
  const gnn::AggregationCall& call;
  std::byte* workspace;
  RunBlock run_block;
  std::atomic<std::int64_t> next_row{0};
};

void run_task(void* context, std::int64_t task) {
  auto& job = *static_cast<Job*>(context);
  const DefaultFloatingEnvironment environment;
  auto* sums = reinterpret_cast<float*>(job.workspace + static_cast<std::size_t>(task) * job.plan.scratch_bytes);
  const std::int64_t rows = rows_of(job.plan.problem);
  const std::int64_t block = std::min(job.plan.rows_per_worker, rows);  // next_row must not overflow
  for (;;) {
    const std::int64_t begin = job.next_row.fetch_add(block, std::memory_order_relaxed);
    if (begin >= rows) return;
    job.run_block(job.plan, job.call, begin, std::min(rows, begin + block), sums);
  }
}

/// One row of sums, in whole cache lines.
std::size_t scratch_bytes_of(const gnn::Aggregation& p) {
  const std::int64_t named = p.selector_type == IndexType::u8 ? 256 : 65536;
  const std::int64_t bytes =
      (p.term == gnn::AggregationTerm::forward ? named : p.k) * static_cast<std::int64_t>(sizeof(float));
  return static_cast<std::size_t>((bytes + kCacheLine - 1) / kCacheLine * kCacheLine);
}

/// For all tasks, with padding to align a base at any address.
std::size_t workspace_bytes_of(const gnn::AggregationPlan& plan) {
  return static_cast<std::size_t>(plan.threads) * plan.scratch_bytes + kCacheLine - 1;
}

gnn::AggregationFamily family_of(const gnn::Aggregation& p) {
  return p.term == gnn::AggregationTerm::forward ? gnn::AggregationFamily::cpu_rows
                                                 : gnn::AggregationFamily::cpu_gather;
}

}  // namespace

Status make_plan(const gnn::Aggregation& problem, const Traits& traits, gnn::AggregationPlan& plan) noexcept {
  gnn::AggregationPlan made{.problem = problem, .family = family_of(problem)};
  const std::int64_t rows = std::max<std::int64_t>(rows_of(problem), 1);
  const std::int64_t degree = std::max<std::int64_t>(problem.edges / rows, 1);
  made.rows_per_worker = std::clamp<std::int64_t>(kEdgesPerBlock / degree, 1, kMaxRowsPerBlock);
  const std::int64_t blocks = (rows + made.rows_per_worker - 1) / made.rows_per_worker;
  made.threads = static_cast<std::int32_t>(std::clamp<std::int64_t>(blocks, 1, traits.threads));
  made.scratch_bytes = scratch_bytes_of(problem);
  made.workspace_bytes = workspace_bytes_of(made);
  plan = made;
  return {};
}

Status check_plan(const gnn::AggregationPlan& plan) noexcept {
  if (plan.family != family_of(plan.problem)) {
    return core::status(StatusCode::invalid_argument, "plan.family is %s; accepted for this term on the CPU: %s",
                        name(plan.family), name(family_of(plan.problem)));
  }
  if (plan.threads < 1 || plan.rows_per_worker < 1 || plan.scratch_bytes != scratch_bytes_of(plan.problem) ||
      plan.workspace_bytes != workspace_bytes_of(plan)) {
    return core::status(
        StatusCode::invalid_argument,
        "plan.threads is %d, rows_per_worker %lld, scratch_bytes %zu and workspace_bytes %zu; accepted: "
        "as make_plan sets them",
        plan.threads, static_cast<long long>(plan.rows_per_worker), plan.scratch_bytes, plan.workspace_bytes);
  }
  return {};
}

void run(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, void* workspace,
         const Executor* executor) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  const std::uintptr_t aligned = (address + kCacheLine - 1) / kCacheLine * kCacheLine;
  Job job{plan, call, static_cast<std::byte*>(workspace) + (aligned - address), block_runner_for(plan.problem, call)};
  run_tasks(executor, tasks_for(plan.threads, rows_of(plan.problem), plan.rows_per_worker), run_task, &job);
}

}  // namespace rtopk::cpu
