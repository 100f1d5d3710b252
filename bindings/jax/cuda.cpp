// The handlers for calls on a GPU. They need no header of CUDA: the library takes a stream as an address.
#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <string>

#include "handlers.hpp"

namespace rtopk::jax_binding {
namespace {

constexpr std::int32_t kMaxGpus = 64;

/// Cached: querying the driver takes longer than a small selection, and the answer does not change.
Status traits_of_gpu(std::int32_t ordinal, Traits& traits) {
  struct Known {
    std::once_flag asked;
    Status status;
    Traits traits;
  };
  static std::array<Known, kMaxGpus> known;
  if (ordinal < 0 || ordinal >= kMaxGpus) {
    return {StatusCode::not_supported, "the GPU has a number beyond 63; accepted: 0 to 63"};
  }
  Known& gpu = known[static_cast<std::size_t>(ordinal)];
  std::call_once(gpu.asked, [&] { gpu.status = query_traits({DeviceKind::cuda, ordinal}, gpu.traits); });
  traits = gpu.traits;
  return gpu.status;
}

/// Plans the problem for a GPU.
Status plan_for_gpu(std::int32_t ordinal, Problem problem, Plan& plan) {
  problem.device = {DeviceKind::cuda, ordinal};
  Traits traits;
  if (const Status status = traits_of_gpu(ordinal, traits); !status.ok()) return status;
  return make_plan(problem, traits, plan);
}

ffi::Error select_on_gpu(void* stream, std::int32_t ordinal, ffi::ScratchAllocator scratch, ffi::AnyBuffer operand,
                         ffi::RemainingRets results, Attributes attributes) {
  Selection selection;
  if (ffi::Error error = read_call(operand, results, results.size(), attributes, selection); error.failure()) {
    return error;
  }
  if (selection.problem.rows == 0) return ffi::Error::Success();
  Plan plan;
  if (const Status status = plan_for_gpu(ordinal, selection.problem, plan); !status.ok()) return error_of(status);
  Workspace workspace;
  if (plan.workspace_bytes > 0) {
    // Freed on return, before the kernels have run. That is safe: XLA reuses it only on the same stream.
    const std::optional<void*> memory = scratch.Allocate(plan.workspace_bytes);
    if (!memory) return out_of_memory(plan.workspace_bytes);
    workspace = {*memory, plan.workspace_bytes};
  }
  return error_of(run(plan, selection.input, selection.output, workspace, {.stream = stream}));
}

ffi::Error select_on_gpu_capturable(void* stream, std::int32_t ordinal, ffi::AnyBuffer operand,
                                    ffi::RemainingRets results, Attributes attributes) {
  if (results.empty()) return ffi::Error::InvalidArgument("rtopk: there are no results");
  const std::size_t last = results.size() - 1;
  Selection selection;
  if (ffi::Error error = read_call(operand, results, last, attributes, selection); error.failure()) return error;
  auto memory = results.get<ffi::AnyBuffer>(last);
  if (memory.has_error()) return memory.error();
  if (selection.problem.rows == 0) return ffi::Error::Success();
  Plan plan;
  if (const Status status = plan_for_gpu(ordinal, selection.problem, plan); !status.ok()) return error_of(status);
  const Workspace workspace{(*memory)->untyped_data(), (*memory)->size_bytes()};
  return error_of(run(plan, selection.input, selection.output, workspace, {.stream = stream}));
}

}  // namespace
}  // namespace rtopk::jax_binding

XLA_FFI_DEFINE_HANDLER_SYMBOL(rtopk_jax_cuda, rtopk::jax_binding::select_on_gpu,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<void*>>()
                                  .Ctx<xla::ffi::DeviceOrdinal>()
                                  .Ctx<xla::ffi::ScratchAllocator>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .RemainingRets()
                                  .Attrs<rtopk::jax_binding::Attributes>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(rtopk_jax_cuda_capturable, rtopk::jax_binding::select_on_gpu_capturable,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<void*>>()
                                  .Ctx<xla::ffi::DeviceOrdinal>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .RemainingRets()
                                  .Attrs<rtopk::jax_binding::Attributes>(),
                              {xla::ffi::Traits::kCmdBufferCompatible});

std::int64_t rtopk_jax_workspace_bytes(const rtopk::jax_binding::Attributes* attributes, std::int64_t dtype,
                                       const std::int64_t* sizes, std::int64_t rank) {
  using namespace rtopk::jax_binding;
  const Dimensions dimensions(sizes, static_cast<std::size_t>(rank));
  rtopk::Problem problem;
  if (read_problem(dimensions, static_cast<rtopk::DType>(dtype), *attributes, problem).failure()) return -1;
  std::int64_t bytes = -1;
  rtopk::Plan plan;
  for (std::int32_t i = 0; i < kMaxGpus && plan_for_gpu(i, problem, plan).ok(); ++i) {
    bytes = std::max(bytes, static_cast<std::int64_t>(plan.workspace_bytes));
  }
  return bytes;
}

std::int32_t rtopk_jax_has_cuda() { return rtopk::build_info().cuda ? 1 : 0; }
