// Argument checks of expert routing.
#include "core/moe/route_checks.hpp"

#include <cmath>

#include "core/checks.hpp"
#include "core/regions.hpp"

namespace rtopk::core {
namespace {

// Rows have at most 1024 elements of 4 bytes: all products below fit in 63 bits.
constexpr std::int64_t kMaxRows = std::int64_t{1} << 48;

}  // namespace

Status check_problem(const moe::Route& p) noexcept {
  if (Status status = check_device(p.device); !status.ok()) return status;
  if (p.score > moe::Score::sqrtsoftplus) {
    return invalid("score", static_cast<int>(p.score), "softmax, sigmoid or sqrtsoftplus");
  }
  if (p.dtype != DType::f32 && p.dtype != DType::f16 && p.dtype != DType::bf16) {
    return invalid("dtype", static_cast<int>(p.dtype), "f32, f16 or bf16");
  }
  if (p.rows < 0 || p.rows > kMaxRows) return invalid("rows", p.rows, "0 to 2^48");
  if (p.experts < 1 || p.experts > moe::kMaxExperts) return invalid("experts", p.experts, "1 to 1024");
  if (p.groups < 1 || p.groups > p.experts || p.experts % p.groups != 0) {
    return status(StatusCode::invalid_argument, "groups is %lld; accepted for %lld experts: a divisor of them",
                  static_cast<long long>(p.groups), static_cast<long long>(p.experts));
  }
  if (p.group_k < 1 || p.group_k > p.groups) {
    return status(StatusCode::invalid_argument, "group_k is %lld; accepted for %lld groups: 1 to %lld",
                  static_cast<long long>(p.group_k), static_cast<long long>(p.groups),
                  static_cast<long long>(p.groups));
  }
  const std::int64_t candidates = p.experts / p.groups * p.group_k;
  const std::int64_t most = candidates < moe::kMaxRoutes ? candidates : moe::kMaxRoutes;
  if (p.k < 1 || p.k > most) {
    return status(StatusCode::invalid_argument,
                  "k is %lld; accepted for %lld experts in %lld of %lld groups: 1 to %lld", static_cast<long long>(p.k),
                  static_cast<long long>(candidates), static_cast<long long>(p.group_k),
                  static_cast<long long>(p.groups), static_cast<long long>(most));
  }
  if (!std::isfinite(p.scale)) {
    return status(StatusCode::invalid_argument, "scale is %g; accepted: a finite number", static_cast<double>(p.scale));
  }
  return {};
}

Status check_call(const moe::RoutePlan& plan, const moe::RouteCall& call, Workspace workspace) noexcept {
  const moe::Route& p = plan.problem;
  Regions regions;
  regions.read("logits", call.logits, p.rows * p.experts, size_of(p.dtype));
  if (p.biased) regions.read("bias", call.bias, p.experts, sizeof(float));
  regions.write("weights", call.weights, p.rows * p.k, sizeof(float));
  regions.write("ids", call.ids, p.rows * p.k, sizeof(std::int32_t));
  return regions.check(workspace, plan.workspace_bytes);
}

}  // namespace rtopk::core
