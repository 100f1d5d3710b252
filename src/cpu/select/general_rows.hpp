// General rows on the CPU: rows become matrices for the families, which know nothing of lengths and maps.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/select.hpp>

namespace rtopk::cpu {

/// Scratch memory of one task, for a plan with one of the SIMD families.
[[nodiscard]] std::size_t general_scratch_bytes(const Plan& plan) noexcept;

/// Selects from rows [begin, end). `scratch` may have any alignment.
void general_rows(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output,
                  std::int64_t begin, std::int64_t end, void* scratch) noexcept;

}  // namespace rtopk::cpu
