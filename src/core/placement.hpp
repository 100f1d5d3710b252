// Positions of rows and elements in the input of a problem, counted in elements from the start of the input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <rtopk/select.hpp>

namespace rtopk::core {

/// Distance from one element of a row to the next.
[[nodiscard]] constexpr std::int64_t element_stride_of(const Problem& problem) noexcept {
  return problem.element_stride == 0 ? 1 : problem.element_stride;
}

/// Distance from one row of a group to the next. Wraps around, without undefined behaviour, for unchecked problems.
[[nodiscard]] constexpr std::int64_t stride_of(const Problem& problem) noexcept {
  if (problem.row_stride != 0) return problem.row_stride;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(problem.cols) *
                                   static_cast<std::uint64_t>(element_stride_of(problem)));
}

/// Rows of a group; the greatest integer if all rows are one group.
[[nodiscard]] constexpr std::int64_t group_rows_of(const Problem& problem) noexcept {
  return problem.group_rows == 0 ? std::numeric_limits<std::int64_t>::max() : problem.group_rows;
}

/// Position of a row's first element.
[[nodiscard]] constexpr std::int64_t row_start(const Problem& problem, std::int64_t row) noexcept {
  const std::int64_t group_rows = group_rows_of(problem);
  return row / group_rows * problem.group_stride + row % group_rows * stride_of(problem);
}

/// Rows left in the group of `row`, including this one.
[[nodiscard]] constexpr std::int64_t rows_to_end_of_group(const Problem& problem, std::int64_t row) noexcept {
  const std::int64_t group_rows = group_rows_of(problem);
  return std::min(problem.rows - row, group_rows - row % group_rows);
}

/// True if the elements of each row are contiguous.
[[nodiscard]] constexpr bool elements_are_adjacent(const Problem& problem) noexcept {
  return element_stride_of(problem) == 1;
}

/// True if all rows are in one group, so that row starts are row_stride apart.
[[nodiscard]] constexpr bool has_one_group(const Problem& problem) noexcept {
  return problem.rows <= group_rows_of(problem);
}

/// The same selection for `rows` contiguous rows.
[[nodiscard]] constexpr Problem tight(const Problem& problem, std::int64_t rows) noexcept {
  Problem result = problem;
  result.rows = rows;
  result.row_stride = result.element_stride = result.group_rows = result.group_stride = 0;
  return result;
}

/// Elements from the first one to one past the last, for a problem with rows. With `slot`, the last row extends to
/// where a next row would begin, if that is later. Int must hold the result: 64 bits suffice for a checked problem.
// no_sanitize: for 128-bit products Clang calls a check function that GCC's runtime library does not have.
template <class Int>
[[nodiscard]] __attribute__((no_sanitize("undefined"))) constexpr Int span_of(const Problem& problem,
                                                                              bool slot) noexcept {
  const std::int64_t group_rows = group_rows_of(problem);
  const auto element_stride = static_cast<Int>(element_stride_of(problem));
  const Int stride = problem.row_stride == 0 ? problem.cols * element_stride : Int{problem.row_stride};
  // Groups may interleave, so the last full group may end after a shorter last group.
  const std::int64_t whole = problem.rows / group_rows;
  const std::int64_t rest = problem.rows % group_rows;
  const Int of_whole = whole == 0 ? Int{0} : Int{whole - 1} * problem.group_stride + (group_rows - 1) * stride;
  const Int of_rest = rest == 0 ? Int{0} : Int{whole} * problem.group_stride + (rest - 1) * stride;
  const Int row = (problem.cols - 1) * element_stride + 1;
  return std::max(of_whole, of_rest) + (slot ? std::max(row, stride) : row);
}

}  // namespace rtopk::core
