// Where tasks run: on the caller's executor, or on the library's own threads.
#pragma once

#include <rtopk/rtopk.hpp>

namespace rtopk::cpu {

/// Calls `task(job, i)` for every i below `number`: on `executor`, or, if that is null, on threads that are started on first
/// use and kept. While another caller uses them, tasks run on the calling thread; so does a single one. Where threads cannot be
/// started, those that there are do all; a child after fork() starts its own.
void run_tasks(const Executor* executor, std::int64_t number, void (*task)(void* job, std::int64_t i),
               void* job) noexcept;

/// As many tasks as a plan has threads, but none without a block of `count` elements to take. So what tasks count past the end
/// stays near `count`, and a plan that was changed to have a billion threads starts no more than there is work for.
[[nodiscard]] constexpr std::int64_t tasks_for(std::int32_t threads, std::int64_t count, std::int64_t block) noexcept {
  const std::int64_t blocks = count / block + (count % block != 0 ? 1 : 0);
  return blocks < 1 ? 1 : blocks < threads ? blocks : threads;
}

}  // namespace rtopk::cpu
