// The SIMD kernels' interface: one source compiled for every instruction set, the best one chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/select.hpp>

#include "plan/select/tuning_cpu.hpp"

namespace rtopk::cpu {

/// Scratch of one task, for any of the SIMD families.
[[nodiscard]] std::size_t simd_scratch_bytes(const Plan& plan) noexcept;

/// Selects rows [begin, end). `scratch` has any alignment.
void simd_rows(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
               void* scratch) noexcept;

class Scratch;

// The kernels of one element type each: select rows [begin, end), or, without input, only take scratch.
void run_f32(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
             Scratch& scratch);
void run_f16(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
             Scratch& scratch);
void run_bf16(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
              Scratch& scratch);
void run_f64(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
             Scratch& scratch);
void run_i32(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
             Scratch& scratch);

}  // namespace rtopk::cpu
