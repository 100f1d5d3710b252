// The library's own threads, for callers who bring no executor.
#pragma once

#include <rtopk/rtopk.hpp>

namespace rtopk::cpu {

/// Runs tasks on threads that are started on first use and kept. While another caller uses them, tasks run on the calling
/// thread.
[[nodiscard]] const Executor& default_executor() noexcept;

}  // namespace rtopk::cpu
