// The machine that a plan is made for (Traits), and what a run needs besides its data: workspace, stream, threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/types.hpp>

namespace rtopk {

/// Properties of the machine that planning depends on. query_traits fills them in. Fill them in by hand to plan for
/// another machine.
struct Traits {
  Device device{};           ///< The device that the traits describe.
  std::int32_t threads = 1;  ///< CPU: number of threads to use.

  std::int32_t compute_capability = 0;      ///< CUDA: 90 for sm_90.
  std::int32_t multiprocessors = 0;         ///< CUDA: number of multiprocessors (SMs).
  std::int64_t shared_bytes_per_block = 0;  ///< CUDA: shared memory of a block, in bytes: the opt-in limit.

  friend bool operator==(const Traits&, const Traits&) = default;
};

/// Reads the traits of `device`. `threads` becomes the number of CPUs that this process may use, limited by its CPU
/// affinity and by the CPU quota of its cgroups (containers). A fractional quota is rounded up. The quota is read once
/// per process.
RTOPK_API Status query_traits(Device device, Traits& traits) noexcept;

/// Scratch memory for a run, owned by the caller. Two runs at the same time need two workspaces. The workspace, like
/// every pointer of a call, must point to memory of the problem's device. This is not checked.
struct Workspace {
  void* data = nullptr;   ///< May be null if the plan needs no workspace.
  std::size_t bytes = 0;  ///< At least workspace_bytes of the plan.
};

/// Runs the library's tasks on the caller's threads. `parallel_for` must call `task(task_context, i)` exactly once for
/// every i in [0, count), in any order and on any threads, and return after all calls have returned. Tasks do not
/// throw.
struct Executor {
  /// Must not be null.
  void (*parallel_for)(void* context, std::int64_t count, void (*task)(void* task_context, std::int64_t i),
                       void* task_context) = nullptr;
  void* context = nullptr;  ///< Passed to `parallel_for`.
};

/// Where a run executes.
///
/// Without an executor, CPU runs use the library's own threads. They start on first use and stay alive. They block all
/// signals except those raised by their own instructions, such as SIGSEGV. If some threads cannot be started, the
/// others do the work. After fork(), the child process starts its own threads. Once a thread has started, the shared
/// object that contains the library stays loaded: dlclose is safe but unloads nothing.
struct Launch {
  void* stream = nullptr;              ///< CUDA: a cudaStream_t. Null is the default stream.
  const Executor* executor = nullptr;  ///< CPU: null means the library's own threads.
};

}  // namespace rtopk
