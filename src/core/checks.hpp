// Argument checks, made before anything runs. Every error text names the argument, its value and the accepted values.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/rtopk.hpp>
#include <rtopk/select.hpp>

#include "core/placement.hpp"

namespace rtopk::core {

/// A status with a printf-formatted text.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
Status
status(StatusCode code, const char* format, ...) noexcept;

/// The error "<argument> is <value>; accepted: <accepted>".
Status invalid(const char* argument, std::int64_t value, const char* accepted) noexcept;

/// Checks all fields of a problem.
Status check_problem(const Problem& problem) noexcept;

/// Checks that `device` is a possible device. It need not exist on this machine.
Status check_device(const Device& device) noexcept;

/// The same for `what`, an operation that only GPUs have.
Status check_gpu(const Device& device, const char* what) noexcept;

/// Checks k and the selector type of CBSR rows with `cols` columns.
Status check_selectors(std::int64_t k, std::int64_t cols, IndexType selector_type) noexcept;

/// Checks pointers, alignment, overlap and workspace of a run. The plan's problem must be valid and have rows.
Status check_call(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output,
                  Workspace workspace) noexcept;

Status check_launch(const Launch& launch) noexcept;

/// Checks that the traits belong to `device` and, for a CPU, have at least one thread.
Status check_traits(const Traits& traits, const Device& device) noexcept;

/// Checks that `bytes` of workspace are possible in memory.
Status check_workspace(const Problem& problem, std::size_t bytes) noexcept;

/// True if what is selected may differ from the exact selection.
[[nodiscard]] constexpr bool stops_early(const Problem& problem) noexcept {
  return problem.max_iter > 0 || problem.epsilon > 0;
}

/// True if a problem asks for the paper's search itself, pass for pass.
[[nodiscard]] constexpr bool makes_passes(const Problem& problem) noexcept {
  return problem.search == Search::bisection;
}

/// True if a problem asks for the paper's search, or for what that selects.
[[nodiscard]] constexpr bool bisects(const Problem& problem) noexcept {
  return stops_early(problem) || makes_passes(problem);
}

/// The exact selection that an early-stopped one follows from: values and columns, in index order.
[[nodiscard]] constexpr Problem exact_pairs(const Problem& problem) noexcept {
  Problem exact = problem;
  exact.max_iter = 0;
  exact.epsilon = 0;
  exact.order = Order::by_index;
  exact.form = Form::pairs;
  exact.index_type = IndexType::i64;
  exact.values = exact.indices = true;
  return exact;
}

[[nodiscard]] constexpr bool writes_values(const Problem& problem) noexcept {
  return problem.form == Form::cbsr || (problem.form == Form::pairs && problem.values);
}

[[nodiscard]] constexpr bool writes_indices(const Problem& problem) noexcept {
  return problem.form == Form::cbsr || (problem.form == Form::pairs && problem.indices);
}

}  // namespace rtopk::core
