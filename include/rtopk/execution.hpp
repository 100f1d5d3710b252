// What a plan is made for and what it runs with: the machine, workspace, stream and threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/types.hpp>

namespace rtopk {

/// What a plan must know of the machine. Filled by query_traits, or by hand to plan for a machine that is not here.
struct Traits {
  Device device{};
  std::int32_t threads = 1;  ///< CPU: how many threads share the rows.

  std::int32_t compute_capability = 0;      ///< CUDA: 90 for sm_90.
  std::int32_t multiprocessors = 0;         ///< CUDA.
  std::int64_t shared_bytes_per_block = 0;  ///< CUDA: the opt-in limit.

  friend bool operator==(const Traits&, const Traits&) = default;
};

/// Reads the traits of `device`. `threads` is the number of CPUs this process may use: by its affinity, and by
/// the quota of its cgroups (containers), rounded up, which is read once.
RTOPK_API Status query_traits(Device device, Traits& traits) noexcept;

/// Memory that a run may write to, owned by the caller. One workspace serves one run at a time. Like everything that a call
/// points to, it is memory of the problem's device, which is not checked.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Runs tasks on somebody else's threads. `parallel_for` must call `task(task_context, i)` exactly once for every i in
/// [0, count), in any order, on any threads, and return when all calls have returned. Tasks do not throw.
struct Executor {
  void (*parallel_for)(void* context, std::int64_t count, void (*task)(void* task_context, std::int64_t i),
                       void* task_context) = nullptr;
  void* context = nullptr;
};

/// Where a run executes.
///
/// The library's own threads are started on first use and kept. They block all signals but those that their own instructions raise.
/// Where they cannot be started, those that there are do the work. A child after fork() starts its own. From the first thread on
/// the library, or the shared object that it was linked into, stays loaded: dlclose is safe, and unloads nothing.
struct Launch {
  void* stream = nullptr;              ///< CUDA: a cudaStream_t; null is the default stream.
  const Executor* executor = nullptr;  ///< CPU: null is the library's own threads.
};

}  // namespace rtopk
