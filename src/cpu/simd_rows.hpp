// The SIMD kernels' interface: one source compiled for every instruction set, the best one chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/rtopk.hpp>

namespace rtopk::cpu {

/// Whether rows of this problem are long enough to be streamed (cpu_stream) instead of searched whole (cpu_row).
[[nodiscard]] bool streams(const Problem& problem) noexcept;

/// Elements that cpu_stream's buffer must hold.
[[nodiscard]] std::int64_t candidate_capacity(const Problem& problem) noexcept;

/// Scratch of one task, for any of the SIMD families.
[[nodiscard]] std::size_t simd_scratch_bytes(const Plan& plan) noexcept;

/// Selects rows [begin, end). `scratch` has any alignment.
void simd_rows(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
               void* scratch) noexcept;

}  // namespace rtopk::cpu
