// Runs tasks on the caller's executor or on the library's own threads.
#pragma once

#include <rtopk/rtopk.hpp>

namespace rtopk::cpu {

/// Calls `task(job, i)` for every i in [0, number), on `executor` or, if that is null, on the library's threads. They
/// start on first use and stay alive. A single task runs on the calling thread; so do all tasks while another caller
/// uses the pool. If some threads cannot be started, the others do the work. After fork(), a child starts its own.
void run_tasks(const Executor* executor, std::int64_t number, void (*task)(void* job, std::int64_t i),
               void* job) noexcept;

/// Number of tasks: one per thread, but at most one per block of `count` elements. So a plan that was changed to a
/// billion threads starts no more tasks than there is work for, and the shared row counter cannot run far past
/// `count`.
[[nodiscard]] constexpr std::int64_t tasks_for(std::int32_t threads, std::int64_t count, std::int64_t block) noexcept {
  const std::int64_t blocks = count / block + (count % block != 0 ? 1 : 0);
  return blocks < 1 ? 1 : blocks < threads ? blocks : threads;
}

}  // namespace rtopk::cpu
