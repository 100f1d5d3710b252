// The handlers for calls on a GPU. They need no header of CUDA: the library takes a stream as an address.
#include <cstdint>
#include <optional>

#include "gpu_plans.hpp"
#include "handlers.hpp"

namespace rtopk::jax_binding {
namespace {

ffi::Error select_on_gpu(void* stream, std::int32_t ordinal, ffi::ScratchAllocator scratch, ffi::AnyBuffer operand,
                         ffi::RemainingArgs arrays, ffi::RemainingRets results, Attributes attributes) {
  Selection selection;
  if (ffi::Error error = read_call(operand, arrays, results, results.size(), attributes, selection); error.failure()) {
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
  return error_of(run(plan, selection.input, selection.output, workspace, {.stream = stream}, selection.arrays));
}

ffi::Error select_on_gpu_capturable(void* stream, std::int32_t ordinal, ffi::AnyBuffer operand,
                                    ffi::RemainingArgs arrays, ffi::RemainingRets results, Attributes attributes) {
  if (results.empty()) return ffi::Error::InvalidArgument("rtopk: there are no results");
  const std::size_t last = results.size() - 1;
  Selection selection;
  if (ffi::Error error = read_call(operand, arrays, results, last, attributes, selection); error.failure())
    return error;
  auto memory = results.get<ffi::AnyBuffer>(last);
  if (memory.has_error()) return memory.error();
  if (selection.problem.rows == 0) return ffi::Error::Success();
  Plan plan;
  if (const Status status = plan_for_gpu(ordinal, selection.problem, plan); !status.ok()) return error_of(status);
  const Workspace workspace{(*memory)->untyped_data(), (*memory)->size_bytes()};
  return error_of(run(plan, selection.input, selection.output, workspace, {.stream = stream}, selection.arrays));
}

}  // namespace
}  // namespace rtopk::jax_binding

XLA_FFI_DEFINE_HANDLER_SYMBOL(rtopk_jax_cuda, rtopk::jax_binding::select_on_gpu,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<void*>>()
                                  .Ctx<xla::ffi::DeviceOrdinal>()
                                  .Ctx<xla::ffi::ScratchAllocator>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs<rtopk::jax_binding::Attributes>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(rtopk_jax_cuda_capturable, rtopk::jax_binding::select_on_gpu_capturable,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<void*>>()
                                  .Ctx<xla::ffi::DeviceOrdinal>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs<rtopk::jax_binding::Attributes>(),
                              {xla::ffi::Traits::kCmdBufferCompatible});
