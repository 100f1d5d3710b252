// rtopk: row-wise top-k selection. Problem -> make_plan -> run.
//
//   rtopk::Problem problem{.rows = n, .cols = m, .k = 32, .index_type = rtopk::IndexType::i32};
//   rtopk::Plan plan;
//   if (auto status = rtopk::make_plan(problem, plan); !status.ok()) { ... status.text() ... }
//   std::vector<std::byte> workspace(plan.workspace_bytes);
//   auto status = rtopk::run(plan, matrix, {.values = values, .indices = indices},
//                            {workspace.data(), workspace.size()});
#pragma once

#include <rtopk/execution.hpp>
#include <rtopk/select.hpp>
#include <rtopk/types.hpp>

#define RTOPK_VERSION_MAJOR 0
#define RTOPK_VERSION_MINOR 1
#define RTOPK_VERSION_PATCH 0

namespace rtopk {

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
