// The handler for calls on the CPU.
#include <new>

#include "common/cpu_workspace.hpp"
#include "handlers.hpp"

namespace rtopk::jax_binding {
namespace {

const Traits& cpu_traits() {
  static const Traits traits = [] {
    Traits found;
    if (!query_traits({}, found).ok()) found = {};
    return found;
  }();
  return traits;
}

ffi::Error select_on_cpu(ffi::AnyBuffer operand, ffi::RemainingArgs arrays, ffi::RemainingRets results,
                         Attributes attributes) {
  Selection selection;
  if (ffi::Error error = read_call(operand, arrays, results, results.size(), attributes, selection); error.failure()) {
    return error;
  }
  if (selection.problem.rows == 0) return ffi::Error::Success();
  Plan plan;
  if (const Status status = make_plan(selection.problem, cpu_traits(), plan); !status.ok()) return error_of(status);
  try {
    const bindings::CpuWorkspace workspace(plan.workspace_bytes);
    return error_of(run(plan, selection.input, selection.output, workspace.get(), {}, selection.arrays));
  } catch (const std::bad_alloc&) {  // of an exception, XLA would say neither the kind nor the size
    return out_of_memory(plan.workspace_bytes);
  }
}

}  // namespace
}  // namespace rtopk::jax_binding

XLA_FFI_DEFINE_HANDLER_SYMBOL(rtopk_jax_cpu, rtopk::jax_binding::select_on_cpu,
                              xla::ffi::Ffi::Bind()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs<rtopk::jax_binding::Attributes>());
