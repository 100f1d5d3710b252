// What a call must satisfy, checked before anything runs. Every refusal names the argument, what it was and what would be
// accepted.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/rtopk.hpp>
#include <rtopk/select.hpp>

#include "core/placement.hpp"

namespace rtopk::core {

/// A status whose text is made as printf makes it.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
Status
status(StatusCode code, const char* format, ...) noexcept;

/// That an argument is what it is, and what would be accepted.
Status invalid(const char* argument, std::int64_t value, const char* accepted) noexcept;

Status check_problem(const Problem& problem) noexcept;

/// That it can be named; it need not be here.
Status check_device(const Device& device) noexcept;

/// The same for `what` a GPU alone does.
Status check_gpu(const Device& device, const char* what) noexcept;

/// Of compact rows: k and the type of selectors for rows of `cols` columns.
Status check_selectors(std::int64_t k, std::int64_t cols, IndexType selector_type) noexcept;

/// Pointers, alignment, overlap and workspace of a run of a plan whose problem is valid and has rows.
Status check_call(const Plan& plan, const void* input, const Output& output, Workspace workspace) noexcept;

Status check_launch(const Launch& launch) noexcept;

/// That they are of this device, and have threads if it is a CPU.
Status check_traits(const Traits& traits, const Device& device) noexcept;

/// Whether the workspace of a plan for this problem is a size that memory can have.
Status check_workspace(const Problem& problem, std::size_t bytes) noexcept;

/// Whether a problem asks for the paper's search, perhaps stopped early.
[[nodiscard]] constexpr bool bisects(const Problem& problem) noexcept {
  return problem.max_iter > 0 || problem.epsilon > 0 || problem.search == Search::bisection;
}

[[nodiscard]] constexpr bool writes_values(const Problem& problem) noexcept {
  return problem.form == Form::cbsr || (problem.form == Form::pairs && problem.values);
}

[[nodiscard]] constexpr bool writes_indices(const Problem& problem) noexcept {
  return problem.form == Form::cbsr || (problem.form == Form::pairs && problem.indices);
}

}  // namespace rtopk::core
