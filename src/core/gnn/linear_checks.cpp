// Argument checks of dense linear layers.
#include "core/gnn/linear_checks.hpp"

#include "core/checks.hpp"
#include "core/regions.hpp"

namespace rtopk::core {
namespace {

constexpr std::int64_t kMaxRows = 0x7fffffff;
constexpr std::int64_t kMaxColumns = 65536;
// Elements per memory access.
constexpr std::int64_t kSeveral = 4;

}  // namespace

Status check_problem(const gnn::Linear& p) noexcept {
  if (Status status = check_gpu(p.device, "a linear map of dense rows"); !status.ok()) return status;
  if (p.term > gnn::LinearTerm::matrix_gradient) {
    return invalid("term", static_cast<int>(p.term), "product, input_gradient or matrix_gradient");
  }
  if (p.rows < 0 || p.rows > kMaxRows) return invalid("rows", p.rows, "0 to 2^31 - 1");
  const auto fits = [](std::int64_t columns) {
    return columns >= kSeveral && columns <= kMaxColumns && columns % kSeveral == 0;
  };
  if (!fits(p.inputs)) return invalid("inputs", p.inputs, "a multiple of 4, 4 to 65536");
  if (!fits(p.outputs)) return invalid("outputs", p.outputs, "a multiple of 4, 4 to 65536");
  return {};
}

Status check_call(const gnn::LinearPlan& plan, const gnn::LinearCall& call, Workspace workspace) noexcept {
  const gnn::Linear& p = plan.problem;
  const std::int64_t input = p.rows * p.inputs / kSeveral;
  const std::int64_t output = p.rows * p.outputs / kSeveral;
  const std::int64_t matrix = p.outputs * p.inputs / kSeveral;
  constexpr std::size_t kSize = kSeveral * sizeof(float);
  Regions regions;
  if (p.term != gnn::LinearTerm::input_gradient) regions.read("input", call.input, input, kSize);
  if (p.term != gnn::LinearTerm::matrix_gradient) regions.read("matrix", call.matrix, matrix, kSize);
  if (p.term != gnn::LinearTerm::product) regions.read("gradient", call.gradient, output, kSize);
  if (p.term == gnn::LinearTerm::product && p.biased) regions.read("bias", call.bias, p.outputs / kSeveral, kSize);
  regions.write("result", call.result,
                p.term == gnn::LinearTerm::product          ? output
                : p.term == gnn::LinearTerm::input_gradient ? input
                                                            : matrix,
                kSize);
  return regions.check(workspace, plan.workspace_bytes);
}

}  // namespace rtopk::core
