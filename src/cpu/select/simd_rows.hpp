// Interface of the SIMD kernels: one source, compiled for every instruction set; the best one is chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/select.hpp>

#include "plan/select/tuning_cpu.hpp"

namespace rtopk::cpu {

/// Scratch memory of one task, for any of the SIMD families.
[[nodiscard]] std::size_t simd_scratch_bytes(const Plan& plan) noexcept;

/// Selects from rows [begin, end). `scratch` may have any alignment.
void simd_rows(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
               void* scratch) noexcept;

/// Bytes of a vector, if has_simd().
[[nodiscard]] std::int64_t simd_vector_bytes() noexcept;

class Scratch;

// Kernels per element type: select from rows [begin, end). With a null input they only measure the scratch memory.
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
