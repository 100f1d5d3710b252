// Where an operator call runs: on the device of its tensors, with torch's threads or its current stream, and with
// workspace from torch's allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <torch/csrc/stable/accelerator.h>

#include <rtopk/rtopk.hpp>

#include "common/cpu_workspace.hpp"
#include "rows.hpp"

namespace rtopk::torch_binding {

[[noreturn]] void refuse(const std::string& text);

/// Throws the text of a status that is not ok.
void check(const Status& status);

/// The device of a tensor. Throws if it is a GPU and this build, or this torch, has no CUDA.
Device device_of(const Tensor& tensor);

Traits traits_of(const Device& device);

/// Runs tasks on torch's threads: a second pool would compete for the same cores.
const Executor& torch_executor();

/// The current stream of a GPU.
void* current_stream(std::int32_t ordinal);

/// Uninitialised memory on the GPU of `like`.
Tensor gpu_workspace(std::size_t bytes, const Tensor& like);

/// Calls f(workspace, launch) with this much workspace on the tensor's device.
template <class F>
void execute_on(const Device& device, const Tensor& tensor, std::size_t workspace_bytes, F&& f) {
  if (device.kind == DeviceKind::cpu) {
    const bindings::CpuWorkspace workspace(workspace_bytes);
    f(workspace.get(), Launch{.executor = &torch_executor()});
    return;
  }
  const torch::stable::accelerator::DeviceGuard guard(device.ordinal);
  // Freed on return, before the kernels have run. That is safe: torch's allocator reuses it only on the same stream.
  std::optional<Tensor> memory;
  Workspace workspace;
  if (workspace_bytes > 0) {
    memory = gpu_workspace(workspace_bytes, tensor);
    workspace = {memory->mutable_data_ptr(), workspace_bytes};
  }
  f(workspace, Launch{.stream = current_stream(device.ordinal)});
}

/// Plans a problem and runs it on its device, which holds `tensor`. Throws the text of a status that is not ok.
template <class Plan, class Problem, class Call>
void execute(const Problem& problem, const Call& call, const Tensor& tensor) {
  Plan plan;
  check(make_plan(problem, traits_of(problem.device), plan));
  execute_on(problem.device, tensor, plan.workspace_bytes,
             [&](Workspace workspace, const Launch& launch) { check(run(plan, call, workspace, launch)); });
}

}  // namespace rtopk::torch_binding
