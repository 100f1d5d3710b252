// The contract as plain code: sorts every row. What all other families are tested against.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/rtopk.hpp>

namespace rtopk::core {

/// Scratch that reference_rows needs.
[[nodiscard]] std::size_t reference_scratch_bytes(const Problem& problem) noexcept;

/// Selects rows [begin, end) of a call that was checked. `scratch` has any alignment.
void reference_rows(const Problem& problem, const void* input, const Output& output, std::int64_t begin,
                    std::int64_t end, void* scratch) noexcept;

}  // namespace rtopk::core
