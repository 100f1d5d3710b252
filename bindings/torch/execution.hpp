// Where a call of an operator runs: the device of its tensors, torch's threads or its current stream, and workspace from
// torch's allocator.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <torch/csrc/stable/accelerator.h>

#include <rtopk/rtopk.hpp>

#include "rows.hpp"

namespace rtopk::torch_binding {

[[noreturn]] void refuse(const std::string& text);

/// Throws what a status says.
void check(const Status& status);

/// Of a tensor. Throws where it is on a GPU and this build, or this torch, has no CUDA.
Device device_of(const Tensor& tensor);

Traits traits_of(const Device& device);

/// Tasks on torch's own threads: a second pool beside them would compete for the same cores.
const Executor& torch_executor();

/// Bytes for one call on a CPU. A thread keeps what small calls need: they ask for some kilobytes again and again, and malloc
/// may take as long as they do. Of one thread there may be only one at a time.
class CpuWorkspace {
 public:
  explicit CpuWorkspace(std::size_t bytes);
  Workspace get() const { return {memory_, bytes_}; }

 private:
  static constexpr std::size_t kMaxKeptBytes = std::size_t{1} << 18;

  std::size_t bytes_;
  std::unique_ptr<std::byte[]> own_;
  std::byte* memory_ = nullptr;
};

/// The current stream of a GPU.
void* current_stream(std::int32_t ordinal);

/// Uninitialised bytes on the GPU of `like`.
Tensor gpu_workspace(std::size_t bytes, const Tensor& like);

/// Calls f(workspace, launch) with that many bytes on a tensor's device.
template <class F>
void execute_on(const Device& device, const Tensor& tensor, std::size_t workspace_bytes, F&& f) {
  if (device.kind == DeviceKind::cpu) {
    const CpuWorkspace workspace(workspace_bytes);
    f(workspace.get(), Launch{.executor = &torch_executor()});
    return;
  }
  const torch::stable::accelerator::DeviceGuard guard(device.ordinal);
  // Freed when this returns, before the kernels have run: torch's allocator gives it to nobody but this stream until then.
  std::optional<Tensor> memory;
  Workspace workspace;
  if (workspace_bytes > 0) {
    memory = gpu_workspace(workspace_bytes, tensor);
    workspace = {memory->mutable_data_ptr(), workspace_bytes};
  }
  f(workspace, Launch{.stream = current_stream(device.ordinal)});
}

/// Plans a problem and runs it on the device that it names, which has `tensor`. Throws what a status says.
template <class Plan, class Problem, class Call>
void execute(const Problem& problem, const Call& call, const Tensor& tensor) {
  Plan plan;
  check(make_plan(problem, traits_of(problem.device), plan));
  execute_on(problem.device, tensor, plan.workspace_bytes,
             [&](Workspace workspace, const Launch& launch) { check(run(plan, call, workspace, launch)); });
}

}  // namespace rtopk::torch_binding
