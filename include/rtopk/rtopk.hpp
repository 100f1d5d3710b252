// rtopk: row-wise top-k selection. Problem -> make_plan -> run.
//
//   rtopk::Problem problem{.rows = n, .cols = m, .k = 32, .index_type = rtopk::IndexType::i32};
//   rtopk::Plan plan;
//   if (auto status = rtopk::make_plan(problem, plan); !status.ok()) { ... status.text() ... }
//   std::vector<std::byte> workspace(plan.workspace_bytes);
//   auto status = rtopk::run(plan, matrix, {.values = values, .indices = indices},
//                            {workspace.data(), workspace.size()});
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/plan.hpp>
#include <rtopk/types.hpp>

#define RTOPK_VERSION_MAJOR 0
#define RTOPK_VERSION_MINOR 1
#define RTOPK_VERSION_PATCH 0

namespace rtopk {

/// Where results go. Rows are tight: k elements apart for pairs and CBSR, cols apart for dense and mask. A pointer that
/// the problem does not ask for is ignored; one that it asks for must not be null (unless rows is 0), must be aligned to
/// its element, and must not overlap the input, the workspace or another output.
struct Output {
  void* values = nullptr;          ///< pairs, cbsr: rows x k of the problem's dtype.
  void* indices = nullptr;         ///< pairs, cbsr: rows x k of the problem's index type.
  void* dense = nullptr;           ///< dense: rows x cols of the problem's dtype.
  std::uint8_t* mask = nullptr;    ///< mask: rows x cols.
  std::int32_t* passes = nullptr;  ///< rows, if Problem::passes.
};

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

/// Selects. On the CPU the result is there when it returns; on CUDA the work is queued on the stream. Allocates nothing,
/// prints nothing, and may be called from several threads at once. If the status is not ok, nothing was written.
RTOPK_API Status run(const Plan& plan, const void* input, const Output& output, Workspace workspace = {},
                     const Launch& launch = {}) noexcept;

/// "0.1.0".
[[nodiscard]] RTOPK_API const char* version() noexcept;

/// What this build can run on this machine.
struct BuildInfo {
  bool highway = false;          ///< Without Highway the CPU backend is the scalar reference.
  bool cuda = false;             ///< Whether the CUDA backend was built in.
  const char* cpu_target = "";   ///< The instruction set that runs here, e.g. "AVX2", "NEON"; "scalar" without Highway.
  const char* cpu_targets = "";  ///< All that were compiled in and that this CPU has, best first, space-separated.
};

[[nodiscard]] RTOPK_API BuildInfo build_info() noexcept;

}  // namespace rtopk
