// Argument checks of row normalizations.
#include "core/gnn/norm_checks.hpp"

#include "core/checks.hpp"
#include "core/regions.hpp"

namespace rtopk::core {
namespace {

constexpr std::int64_t kMaxRows = 0x7fffffff;
constexpr std::int64_t kMaxColumns = 1024;
// Wider rows are only accessed four elements at a time.
constexpr std::int64_t kMaxSingleColumns = 512;

}  // namespace

Status check_problem(const gnn::Norm& p) noexcept {
  if (Status status = check_gpu(p.device, "a normalization of rows"); !status.ok()) return status;
  if (p.term > gnn::NormTerm::compact_gradient) {
    return invalid("term", static_cast<int>(p.term), "rows, gradient or compact_gradient");
  }
  if (p.rows < 0 || p.rows > kMaxRows) return invalid("rows", p.rows, "0 to 2^31 - 1");
  if (p.cols < 1 || p.cols > kMaxColumns || (p.cols > kMaxSingleColumns && p.cols % 4 != 0)) {
    return invalid("cols", p.cols, "1 to 512, or a multiple of 4 up to 1024");
  }
  if (!(p.epsilon >= 0.0f)) {
    return status(StatusCode::invalid_argument, "epsilon is %g; accepted: 0 or more", static_cast<double>(p.epsilon));
  }
  return p.term == gnn::NormTerm::compact_gradient ? check_selectors(p.k, p.cols, p.selector_type) : Status{};
}

Status check_call(const gnn::NormPlan& plan, const gnn::NormCall& call, Workspace workspace) noexcept {
  const gnn::Norm& p = plan.problem;
  Regions regions;
  // Elements per memory access.
  const std::int64_t several = p.cols > kMaxSingleColumns ? 4 : 1;
  const std::size_t size = static_cast<std::size_t>(several) * sizeof(float);
  const std::int64_t row = p.cols / several;
  regions.read("input", call.input, p.rows * row, size);
  if (p.biased) regions.read("bias", call.bias, row, size);
  regions.read("gamma", call.gamma, row, size);
  regions.write("result", call.result, p.rows * row, size);
  if (p.term == gnn::NormTerm::rows) {
    regions.read("beta", call.beta, row, size);
    return regions.check(workspace, plan.workspace_bytes);
  }
  if (p.term == gnn::NormTerm::gradient) {
    regions.read("gradient", call.gradient, p.rows * row, size);
  } else {
    regions.read("values", call.values, p.rows * p.k, sizeof(float));
    regions.read("selectors", call.selectors, p.rows * p.k, size_of(p.selector_type));
  }
  regions.write("gamma_gradient", call.gamma_gradient, p.cols, sizeof(float));
  regions.write("beta_gradient", call.beta_gradient, p.cols, sizeof(float));
  if (p.biased) regions.write("bias_gradient", call.bias_gradient, p.cols, sizeof(float));
  return regions.check(workspace, plan.workspace_bytes);
}

}  // namespace rtopk::core
