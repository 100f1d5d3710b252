// Kernel of the routing operator.
#include "expert_routes.hpp"

#include <string>

#include <torch/csrc/stable/ops.h>

#include <rtopk/moe/route.hpp>

#include "execution.hpp"
#include "selection.hpp"
#include "tensor_checks.hpp"

namespace rtopk::torch_binding {
namespace {

/// The tensor itself if it is contiguous. Asking torch for that goes through its dispatcher by the name of the operator,
/// which takes longer than all else that a small call does on the host.
Tensor held(const Tensor& tensor) { return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor); }

}  // namespace

std::tuple<Tensor, Tensor> expert_routes(const Tensor& logits, const MaybeTensor& bias, std::int64_t k,
                                         std::int64_t score, std::int64_t groups, std::int64_t group_k,
                                         bool renormalize, double scale) {
  check_memory("logits", logits);
  if (logits.dim() < 1 || logits.dim() > Sizes::kMax) {
    refuse("logits has " + std::to_string(logits.dim()) + " dimensions; accepted: 1 to 64, experts along the last");
  }
  const auto type = logits.scalar_type();
  using torch::headeronly::ScalarType;
  if (type != ScalarType::Float && type != ScalarType::Half && type != ScalarType::BFloat16) {
    refuse("logits has another dtype; accepted: float32, float16 or bfloat16");
  }
  if (score < 0 || score > static_cast<std::int64_t>(moe::Score::sqrtsoftplus)) {
    refuse("score is " + std::to_string(score) + "; accepted: 0 (softmax), 1 (sigmoid) or 2 (sqrtsoftplus)");
  }
  const std::int64_t dims = logits.dim();
  moe::Route problem{.rows = 1,
                     .experts = logits.size(dims - 1),
                     .k = k,
                     .groups = groups,
                     .group_k = group_k,
                     .dtype = element_type_of(logits),
                     .score = static_cast<moe::Score>(score),
                     .biased = bias.has_value(),
                     .renormalize = renormalize,
                     .scale = static_cast<float>(scale),
                     .device = device_of(logits)};
  MaybeTensor held_bias;
  if (bias) {
    check_floats("bias", *bias, 1, logits, "logits");
    check_size("bias", *bias, 0, problem.experts, "the number of experts");
    held_bias = held(*bias);
  }
  Sizes sizes;
  sizes.count = dims;
  for (std::int64_t i = 0; i + 1 < dims; ++i) {
    sizes.each[i] = logits.size(i);
    problem.rows *= sizes.each[i];
  }
  sizes.each[dims - 1] = k;
  // Checks k before a tensor of that size is made.
  moe::RoutePlan plan;
  check(make_plan(problem, traits_of(problem.device), plan));
  Tensor weights = empty_contiguous(sizes, aoti_torch_dtype_float32(), logits);
  Tensor ids = empty_contiguous(sizes, aoti_torch_dtype_int32(), logits);
  if (problem.rows == 0) return {weights, ids};
  const Tensor held_logits = held(logits);
  const moe::RouteCall call{.logits = held_logits.const_data_ptr(),
                            .bias = held_bias ? floats(*held_bias) : nullptr,
                            .weights = mutable_floats(weights),
                            .ids = static_cast<std::int32_t*>(ids.mutable_data_ptr())};
  execute_on(problem.device, weights, plan.workspace_bytes,
             [&](Workspace workspace, const Launch& launch) { check(run(plan, call, workspace, launch)); });
  return {weights, ids};
}

}  // namespace rtopk::torch_binding
