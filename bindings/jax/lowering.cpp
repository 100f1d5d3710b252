// What python/rtopk/jax asks when it registers the handlers and when it writes calls of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "gpu_plans.hpp"
#include "handlers.hpp"

std::int64_t rtopk_jax_workspace_bytes(const rtopk::jax_binding::Attributes* attributes, std::int64_t dtype,
                                       const std::int64_t* sizes, std::int64_t rank, std::int64_t segments) {
  using namespace rtopk::jax_binding;
  const Dimensions dimensions(sizes, static_cast<std::size_t>(rank));
  rtopk::Problem problem;
  if (read_problem(dimensions, segments, static_cast<rtopk::DType>(dtype), *attributes, problem).failure()) return -1;
  if (problem.rows == 0) return 0;
  std::int64_t bytes = -1;
  rtopk::Plan plan;
  for (std::int32_t i = 0; plan_for_gpu(i, problem, plan).ok(); ++i) {
    bytes = std::max(bytes, static_cast<std::int64_t>(plan.workspace_bytes));
  }
  return bytes;
}

std::int32_t rtopk_jax_has_cuda() { return rtopk::build_info().cuda ? 1 : 0; }

std::int32_t rtopk_jax_interface() { return XLA_FFI_API_MINOR; }
