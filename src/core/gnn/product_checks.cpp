// Argument checks of products with CBSR rows.
#include "core/gnn/product_checks.hpp"

#include "core/checks.hpp"
#include "core/regions.hpp"

namespace rtopk::core {
namespace {

constexpr std::int64_t kMaxColumns = 65536;
// Elements have 4 bytes: all products below fit in 63 bits.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 60;

}  // namespace

Status check_problem(const gnn::Product& p) noexcept {
  if (Status status = check_device(p.device); !status.ok()) return status;
  if (p.term > gnn::ProductTerm::matrix_gradient) {
    return invalid("term", static_cast<int>(p.term), "product, values_gradient or matrix_gradient");
  }
  if (p.cols < 1 || p.cols > kMaxColumns) return invalid("cols", p.cols, "1 to 65536");
  if (Status status = check_selectors(p.k, p.cols, p.selector_type); !status.ok()) return status;
  if (p.width < 1 || p.width > kMaxElements / kMaxColumns) return invalid("width", p.width, "1 to 2^44");
  if (p.rows < 0 || p.rows > kMaxElements / (p.width > p.k ? p.width : p.k)) {
    return invalid("rows", p.rows, "0 or more, with rows * width and rows * k up to 2^60");
  }
  return {};
}

Status check_call(const gnn::ProductPlan& plan, const gnn::ProductCall& call, Workspace workspace) noexcept {
  const gnn::Product& p = plan.problem;
  Regions regions;
  regions.read("selectors", call.selectors, p.rows * p.k, size_of(p.selector_type));
  if (p.term != gnn::ProductTerm::values_gradient) regions.read("values", call.values, p.rows * p.k, sizeof(float));
  if (p.term != gnn::ProductTerm::matrix_gradient) regions.read("matrix", call.matrix, p.cols * p.width, sizeof(float));
  if (p.term != gnn::ProductTerm::product) regions.read("gradient", call.gradient, p.rows * p.width, sizeof(float));
  const std::int64_t results = p.term == gnn::ProductTerm::product           ? p.rows * p.width
                               : p.term == gnn::ProductTerm::values_gradient ? p.rows * p.k
                                                                             : p.cols * p.width;
  regions.write("result", call.result, results, sizeof(float));
  return regions.check(workspace, plan.workspace_bytes);
}

}  // namespace rtopk::core
