// rtopk: row-wise top-k selection. Usage: problem -> make_plan -> run.
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

/// The library's version, for example "0.1.0".
[[nodiscard]] RTOPK_API const char* version() noexcept;

/// What this build of the library can use on this machine.
struct BuildInfo {
  bool highway = false;  ///< False: the CPU backend is the scalar reference.
  bool cuda = false;     ///< The CUDA backend is part of this build.
  /// The GPUs that it has code for, as in CMAKE_CUDA_ARCHITECTURES, separated by spaces: "80-real 90"; "" without CUDA.
  const char* cuda_architectures = "";
  const char* cpu_target = "";   ///< The instruction set in use, e.g. "AVX2" or "NEON"; "scalar" without Highway.
  const char* cpu_targets = "";  ///< All compiled instruction sets that this CPU has, best first, separated by spaces.
};

/// Properties of this build and this machine.
[[nodiscard]] RTOPK_API BuildInfo build_info() noexcept;

}  // namespace rtopk
