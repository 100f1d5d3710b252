#include "norm_checks.hpp"

#include "checks.hpp"
#include "regions.hpp"

namespace rtopk::core {
namespace {

constexpr std::int64_t kMostRows = 0x7fffffff;
constexpr std::int64_t kMostColumns = 1024;
// More are accessed by four alone.
constexpr std::int64_t kMostSingleColumns = 512;

}  // namespace

Status check_problem(const Norm& p) noexcept {
  if (Status status = check_gpu(p.device, "a normalization of rows"); !status.ok()) return status;
  if (p.term > NormTerm::compact_gradient) {
    return invalid("term", static_cast<int>(p.term), "rows, gradient or compact_gradient");
  }
  if (p.rows < 0 || p.rows > kMostRows) return invalid("rows", p.rows, "0 to 2^31 - 1");
  if (p.cols < 1 || p.cols > kMostColumns || (p.cols > kMostSingleColumns && p.cols % 4 != 0)) {
    return invalid("cols", p.cols, "1 to 512, or a multiple of 4 up to 1024");
  }
  if (!(p.epsilon >= 0.0f)) {
    return status(StatusCode::invalid_argument, "epsilon is %g; accepted: 0 or more", static_cast<double>(p.epsilon));
  }
  return p.term == NormTerm::compact_gradient ? check_selectors(p.k, p.cols, p.selector_type) : Status{};
}

Status check_call(const NormPlan& plan, const NormCall& call, Workspace workspace) noexcept {
  const Norm& p = plan.problem;
  Regions regions;
  // Elements that are accessed at once.
  const std::int64_t several = p.cols > kMostSingleColumns ? 4 : 1;
  const std::size_t size = static_cast<std::size_t>(several) * sizeof(float);
  const std::int64_t row = p.cols / several;
  regions.read("input", call.input, p.rows * row, size);
  if (p.biased) regions.read("bias", call.bias, row, size);
  regions.read("gamma", call.gamma, row, size);
  regions.write("result", call.result, p.rows * row, size);
  if (p.term == NormTerm::rows) {
    regions.read("beta", call.beta, row, size);
    return regions.check(workspace, plan.workspace_bytes);
  }
  if (p.term == NormTerm::gradient) {
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
