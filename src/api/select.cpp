// API of selections: checks a call, then passes it to the backend of its device.
#include <optional>

#include <rtopk/rtopk.hpp>

#include "api/cuda_backend.hpp"
#include "api/plan_here.hpp"
#include "core/checks.hpp"
#include "cpu/backend.hpp"

#define RTOPK_TEXT_OF(x) #x
#define RTOPK_TEXT(x) RTOPK_TEXT_OF(x)

namespace rtopk {

Status query_traits(Device device, Traits& traits) noexcept {
  if (device.kind == DeviceKind::cuda) return cuda::query_traits(device, traits);
  if (device.kind != DeviceKind::cpu || device.ordinal != 0) {
    return {StatusCode::invalid_argument, "device is unknown; accepted: cpu with ordinal 0"};
  }
  traits = Traits{.device = device, .threads = cpu::available_threads()};
  return {};
}

namespace {

Status planned(const Problem& problem, const Traits& traits, std::optional<Family> wanted, Plan& plan) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  if (Status status = core::check_traits(traits, problem.device); !status.ok()) return status;
  if (problem.device.kind == DeviceKind::cuda) return cuda::make_plan(problem, traits, wanted, plan);
  return cpu::make_plan(problem, traits, wanted, cpu::kernels(), plan);
}

}  // namespace

Status make_plan(const Problem& problem, const Traits& traits, Plan& plan) noexcept {
  return planned(problem, traits, std::nullopt, plan);
}

Status make_plan(const Problem& problem, const Traits& traits, Family family, Plan& plan) noexcept {
  return planned(problem, traits, family, plan);
}

Status make_plan(const Problem& problem, Plan& plan) noexcept { return plan_here(problem, plan); }

Status make_plan(const Problem& problem, Family family, Plan& plan) noexcept {
  return plan_here(problem, family, plan);
}

Status run(const Plan& plan, const void* input, const Output& output, Workspace workspace, const Launch& launch,
           const RowArrays& arrays) noexcept {
  if (Status status = core::check_problem(plan.problem); !status.ok()) return status;
  const bool on_cuda = plan.problem.device.kind == DeviceKind::cuda;
  if (Status status = on_cuda ? cuda::check_plan(plan) : cpu::check_plan(plan, cpu::kernels()); !status.ok())
    return status;
  if (Status status = core::check_launch(launch); !status.ok()) return status;
  if (plan.problem.rows == 0) return {};
  if (Status status = core::check_call(plan, input, arrays, output, workspace); !status.ok()) return status;
  if (on_cuda) return cuda::run(plan, input, arrays, output, workspace.data, launch.stream);
  cpu::run(plan, input, arrays, output, workspace.data, launch.executor);
  return {};
}

const char* version() noexcept {
  return RTOPK_TEXT(RTOPK_VERSION_MAJOR) "." RTOPK_TEXT(RTOPK_VERSION_MINOR) "." RTOPK_TEXT(RTOPK_VERSION_PATCH);
}

BuildInfo build_info() noexcept {
  return BuildInfo {
#if defined(RTOPK_HAVE_HIGHWAY)
    .highway = true,
#endif
#if defined(RTOPK_HAVE_CUDA)
    .cuda = true,
#endif
    .cuda_architectures = cuda::architectures(), .cpu_target = cpu::simd_target(), .cpu_targets = cpu::simd_targets(),
  };
}

}  // namespace rtopk
