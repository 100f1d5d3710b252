#include "product_checks.hpp"

#include "checks.hpp"
#include "regions.hpp"

namespace rtopk::core {
namespace {

constexpr std::int64_t kMostColumns = 65536;
// 4 bytes an element: whatever is multiplied below fits in 63 bits.
constexpr std::int64_t kMostElements = std::int64_t{1} << 60;

}  // namespace

Status check_problem(const Product& p) noexcept {
  if (Status status = check_device(p.device); !status.ok()) return status;
  if (p.term > ProductTerm::matrix_gradient) {
    return invalid("term", static_cast<int>(p.term), "product, values_gradient or matrix_gradient");
  }
  if (p.cols < 1 || p.cols > kMostColumns) return invalid("cols", p.cols, "1 to 65536");
  if (Status status = check_selectors(p.k, p.cols, p.selector_type); !status.ok()) return status;
  if (p.width < 1 || p.width > kMostElements / kMostColumns) return invalid("width", p.width, "1 to 2^44");
  if (p.rows < 0 || p.rows > kMostElements / (p.width > p.k ? p.width : p.k)) {
    return invalid("rows", p.rows, "0 or more, with rows * width and rows * k up to 2^60");
  }
  return {};
}

Status check_call(const ProductPlan& plan, const ProductCall& call, Workspace workspace) noexcept {
  const Product& p = plan.problem;
  Regions regions;
  regions.read("selectors", call.selectors, p.rows * p.k, size_of(p.selector_type));
  if (p.term != ProductTerm::values_gradient) regions.read("values", call.values, p.rows * p.k, sizeof(float));
  if (p.term != ProductTerm::matrix_gradient) regions.read("matrix", call.matrix, p.cols * p.width, sizeof(float));
  if (p.term != ProductTerm::product) regions.read("gradient", call.gradient, p.rows * p.width, sizeof(float));
  const std::int64_t results = p.term == ProductTerm::product           ? p.rows * p.width
                               : p.term == ProductTerm::values_gradient ? p.rows * p.k
                                                                        : p.cols * p.width;
  regions.write("result", call.result, results, sizeof(float));
  return regions.check(workspace, plan.workspace_bytes);
}

}  // namespace rtopk::core
