// Interface of the CPU backend: its properties and selections.
#pragma once

#include <rtopk/select.hpp>

#include "plan/select/cpu.hpp"

namespace rtopk::cpu {

/// CPUs that this process may use, limited by its affinity and by the quota of its cgroups.
[[nodiscard]] int available_threads() noexcept;

/// Properties of the kernels that planning needs; see plan/select/cpu.hpp.
[[nodiscard]] Kernels kernels() noexcept;

/// Executes a checked plan with a checked call. `executor` may be null.
void run(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output, void* workspace,
         const Executor* executor) noexcept;

/// True if this CPU has one of the instruction sets that the kernels are compiled for. Otherwise the reference runs.
[[nodiscard]] bool has_simd() noexcept;

/// The instruction set in use, and all usable ones, best first.
[[nodiscard]] const char* simd_target() noexcept;
[[nodiscard]] const char* simd_targets() noexcept;

}  // namespace rtopk::cpu
