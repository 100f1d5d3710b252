// The reference family: the contract as plain code. All other families are tested against it.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/rtopk.hpp>

namespace rtopk::core {

/// Bytes of scratch memory that reference_rows needs.
[[nodiscard]] std::size_t reference_scratch_bytes(const Problem& problem) noexcept;

/// Selects from rows [begin, end) of a checked call. `scratch` may have any alignment.
void reference_rows(const Problem& problem, const void* input, const RowArrays& arrays, const Output& output,
                    std::int64_t begin, std::int64_t end, void* scratch) noexcept;

}  // namespace rtopk::core
