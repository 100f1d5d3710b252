// Where tasks run: on the caller's executor, or on the library's own threads.
#pragma once

#include <rtopk/rtopk.hpp>

namespace rtopk::cpu {

/// Calls `task(job, i)` for every i below `number`: on `executor`, or, if that is null, on threads that are started on first
/// use and kept. While another caller uses them, tasks run on the calling thread; so does a single one.
void run_tasks(const Executor* executor, std::int64_t number, void (*task)(void* job, std::int64_t i),
               void* job) noexcept;

}  // namespace rtopk::cpu
