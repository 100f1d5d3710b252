// Argument checks of aggregations, transpositions and graphs with own edges.
#include "core/gnn/aggregate_checks.hpp"

#include "core/checks.hpp"
#include "core/regions.hpp"

namespace rtopk::core {
namespace {

constexpr std::int64_t kMaxColumns = 65536;
// Elements have up to 8 bytes, and there are rows + 1 row starts: all products below fit in 63 bits.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 59;

long long printable(std::int64_t value) { return value; }

bool product_fits(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) && product <= kMaxElements;
}

Status check_graph(std::int64_t rows, std::int64_t nodes, std::int64_t edges, IndexType type, const Device& device) {
  constexpr const char* kAccepted = "0 to 2^59";
  if (rows < 0 || rows > kMaxElements) return invalid("rows", rows, kAccepted);
  if (nodes < 0 || nodes > kMaxElements) return invalid("nodes", nodes, kAccepted);
  if (edges < 0 || edges > kMaxElements) return invalid("edges", edges, kAccepted);
  if (type != IndexType::i32 && type != IndexType::i64) {
    return status(StatusCode::invalid_argument, "graph_index_type is %s; accepted: i32 or i64", name(type));
  }
  constexpr std::int64_t kMax32 = 0x7fffffff;
  if (type == IndexType::i32 && (edges > kMax32 || rows > kMax32 || nodes > kMax32)) {
    return status(StatusCode::invalid_argument,
                  "graph_index_type is i32 with %lld edges, %lld rows and %lld nodes; accepted: i64 above 2^31 - 1",
                  printable(edges), printable(rows), printable(nodes));
  }
  return check_device(device);
}

struct GraphNames {
  const char* row_starts;
  const char* columns;
  const char* weights;
};

}  // namespace

Status check_problem(const gnn::Aggregation& p) noexcept {
  if (Status result = check_graph(p.rows, p.nodes, p.edges, p.graph_index_type, p.device); !result.ok()) return result;
  if (p.term > gnn::AggregationTerm::backward) return invalid("term", static_cast<int>(p.term), "forward or backward");
  if (p.cols < 1 || p.cols > kMaxColumns) return invalid("cols", p.cols, "1 to 65536");
  if (p.dtype != DType::f32 && p.dtype != DType::f16 && p.dtype != DType::bf16) {
    return status(StatusCode::invalid_argument, "dtype is %s; accepted: f32, f16 or bf16", name(p.dtype));
  }
  if (Status status = check_selectors(p.k, p.cols, p.selector_type); !status.ok()) return status;
  if (!product_fits(p.rows, p.cols) || !product_fits(p.nodes, p.cols)) {
    return status(StatusCode::invalid_argument,
                  "rows is %lld, nodes %lld and cols %lld; accepted: at most 2^59 features", printable(p.rows),
                  printable(p.nodes), printable(p.cols));
  }
  return {};
}

Status check_problem(const gnn::Transposition& p) noexcept {
  return check_graph(p.rows, p.nodes, p.edges, p.graph_index_type, p.device);
}

Status check_problem(const gnn::OwnEdges& p) noexcept {
  if (Status result = check_graph(p.rows, p.nodes, p.edges, p.graph_index_type, p.device); !result.ok()) return result;
  if (p.edge > gnn::OwnEdge::identity) return invalid("edge", static_cast<int>(p.edge), "none, self_loop or identity");
  const bool beside = p.edge == gnn::OwnEdge::identity;
  if (beside && p.normalized) return invalid("normalized", 1, "false with identity");
  if (p.edge == gnn::OwnEdge::none && !p.normalized) return invalid("edge", 0, "another than none, or normalized");
  if (!beside && p.rows > p.nodes) {
    return status(StatusCode::invalid_argument, "rows is %lld and nodes %lld; accepted: rows that are the first nodes",
                  printable(p.rows), printable(p.nodes));
  }
  // The columns and places of the result have the same limits.
  return check_graph(p.rows, beside ? p.nodes + p.rows : p.nodes, p.edges + p.rows, p.graph_index_type, p.device);
}

Status check_call(const gnn::AggregationPlan& plan, const gnn::AggregationCall& call, Workspace workspace) noexcept {
  const gnn::Aggregation& p = plan.problem;
  const std::size_t index = size_of(p.graph_index_type);
  const std::size_t element = size_of(p.dtype);
  Regions regions;
  const auto read_graph = [&](const gnn::Graph& graph, std::int64_t rows, const GraphNames& names) {
    regions.read(names.row_starts, graph.row_starts, rows + 1, index);
    regions.read(names.columns, graph.columns, p.edges, index);
    if (p.weighted) regions.read(names.weights, graph.weights, p.edges, sizeof(float));
  };
  if (plan.needs_transposed()) {
    read_graph(call.transposed, p.nodes, {"transposed.row_starts", "transposed.columns", "transposed.weights"});
    if (p.mean) regions.read("graph.row_starts", call.graph.row_starts, p.rows + 1, index);
  } else {
    read_graph(call.graph, p.rows, {"graph.row_starts", "graph.columns", "graph.weights"});
  }
  regions.read("selectors", call.selectors, p.nodes * p.k, size_of(p.selector_type));
  if (p.term == gnn::AggregationTerm::forward) {
    regions.read("values", call.values, p.nodes * p.k, element);
    regions.write("result", call.result, p.rows * p.cols, element);
  } else {
    regions.read("gradient", call.gradient, p.rows * p.cols, element);
    regions.write("result", call.result, p.nodes * p.k, element);
  }
  return regions.check(workspace, plan.workspace_bytes);
}

Status check_call(const gnn::TranspositionPlan& plan, const gnn::Graph& graph, const gnn::TransposedGraph& transposed,
                  Workspace workspace) noexcept {
  const gnn::Transposition& p = plan.problem;
  const std::size_t index = size_of(p.graph_index_type);
  Regions regions;
  regions.read("graph.row_starts", graph.row_starts, p.rows + 1, index);
  regions.read("graph.columns", graph.columns, p.edges, index);
  regions.write("transposed.row_starts", transposed.row_starts, p.nodes + 1, index);
  regions.write("transposed.columns", transposed.columns, p.edges, index);
  if (p.weighted) {
    regions.read("graph.weights", graph.weights, p.edges, sizeof(float));
    regions.write("transposed.weights", transposed.weights, p.edges, sizeof(float));
  }
  return regions.check(workspace, plan.workspace_bytes);
}

Status check_call(const gnn::OwnEdges& p, const gnn::Graph& graph, const gnn::OwnEdgesResult& result) noexcept {
  const std::size_t index = size_of(p.graph_index_type);
  const bool adds = p.edge != gnn::OwnEdge::none;
  const std::int64_t places = adds ? p.edges + p.rows : p.edges;
  Regions regions;
  regions.read("graph.row_starts", graph.row_starts, p.rows + 1, index);
  regions.read("graph.columns", graph.columns, p.edges, index);
  if (p.weighted) regions.read("graph.weights", graph.weights, p.edges, sizeof(float));
  if (adds) {
    regions.write("result.row_starts", result.row_starts, p.rows + 1, index);
    regions.write("result.columns", result.columns, places, index);
  }
  if (p.weighted || p.normalized) regions.write("result.weights", result.weights, places, sizeof(float));
  if (p.normalized) regions.write("result.scales", result.scales, p.rows, sizeof(double));
  return regions.check({}, 0);
}

}  // namespace rtopk::core
