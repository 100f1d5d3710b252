// The CPU backend as the rest of the library sees it.
#pragma once

#include <rtopk/select.hpp>

#include "plan/select/cpu.hpp"

namespace rtopk::cpu {

/// CPUs that this process may use, by its affinity and by the quota of its cgroups.
[[nodiscard]] int available_threads() noexcept;

/// For plans: plan/select/cpu.hpp.
[[nodiscard]] Kernels kernels() noexcept;

/// Runs a plan and a call that were checked. `executor` may be null.
void run(const Plan& plan, const void* input, const Output& output, void* workspace, const Executor* executor) noexcept;

/// Whether this CPU has one of the instruction sets that the kernels are compiled for. Without, the scalar reference selects.
[[nodiscard]] bool has_simd() noexcept;

/// The instruction set that runs here, and all usable ones, best first.
[[nodiscard]] const char* simd_target() noexcept;
[[nodiscard]] const char* simd_targets() noexcept;

}  // namespace rtopk::cpu
