// What the CUDA families can be asked for.
#pragma once

#include <rtopk/select.hpp>

namespace rtopk::cuda {

/// Checks what kernels for general rows cannot do.
[[nodiscard]] Status check_general(const Problem& problem) noexcept;

/// Checks that a family can do the search that a problem asks for. `argument`: how the error names the family.
[[nodiscard]] Status check_search(Family family, const Problem& problem, const char* argument) noexcept;

/// The error if a family has no config for a problem: what it takes.
[[nodiscard]] Status beyond_limits(Family family, const Problem& problem) noexcept;

}  // namespace rtopk::cuda
