// The handler for calls on the CPU.
#include <cstddef>
#include <memory>
#include <new>

#include "handlers.hpp"

namespace rtopk::jax_binding {
namespace {

/// Workspace for one call. Every thread keeps a small buffer, since malloc may take as long as a small call.
class CpuWorkspace {
 public:
  explicit CpuWorkspace(std::size_t bytes) : bytes_(bytes) {
    static thread_local std::unique_ptr<std::byte[]> kept;
    std::unique_ptr<std::byte[]>& memory = bytes > kKeptBytes ? own_ : kept;
    if (!memory) memory.reset(new (std::nothrow) std::byte[bytes > kKeptBytes ? bytes : kKeptBytes]);
    data_ = memory.get();
  }

  /// False if memory is short.
  bool ok() const { return data_ != nullptr; }
  Workspace get() const { return {data_, bytes_}; }

 private:
  static constexpr std::size_t kKeptBytes = std::size_t{1} << 18;

  std::size_t bytes_;
  std::unique_ptr<std::byte[]> own_;
  std::byte* data_ = nullptr;
};

const Traits& cpu_traits() {
  static const Traits traits = [] {
    Traits found;
    if (!query_traits({}, found).ok()) found = {};
    return found;
  }();
  return traits;
}

ffi::Error select_on_cpu(ffi::AnyBuffer operand, ffi::RemainingRets results, Attributes attributes) {
  Selection selection;
  if (ffi::Error error = read_call(operand, results, results.size(), attributes, selection); error.failure()) {
    return error;
  }
  if (selection.problem.rows == 0) return ffi::Error::Success();
  Plan plan;
  if (const Status status = make_plan(selection.problem, cpu_traits(), plan); !status.ok()) return error_of(status);
  const CpuWorkspace workspace(plan.workspace_bytes);
  if (!workspace.ok()) return out_of_memory(plan.workspace_bytes);
  return error_of(run(plan, selection.input, selection.output, workspace.get()));
}

}  // namespace
}  // namespace rtopk::jax_binding

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    rtopk_jax_cpu, rtopk::jax_binding::select_on_cpu,
    xla::ffi::Ffi::Bind().Arg<xla::ffi::AnyBuffer>().RemainingRets().Attrs<rtopk::jax_binding::Attributes>());
