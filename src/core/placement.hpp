// Where the rows of a problem and their elements lie, in elements from the beginning of the input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <rtopk/select.hpp>

namespace rtopk::core {

/// From one element of a row to the next.
[[nodiscard]] constexpr std::int64_t element_stride_of(const Problem& problem) noexcept {
  return problem.element_stride == 0 ? 1 : problem.element_stride;
}

/// From one row of a group to the next. Says nothing of a problem that was not checked.
[[nodiscard]] constexpr std::int64_t stride_of(const Problem& problem) noexcept {
  if (problem.row_stride != 0) return problem.row_stride;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(problem.cols) *
                                   static_cast<std::uint64_t>(element_stride_of(problem)));
}

/// Rows of a group; more than there are where all are one.
[[nodiscard]] constexpr std::int64_t group_rows_of(const Problem& problem) noexcept {
  return problem.group_rows == 0 ? std::numeric_limits<std::int64_t>::max() : problem.group_rows;
}

/// Where a row begins.
[[nodiscard]] constexpr std::int64_t row_start(const Problem& problem, std::int64_t row) noexcept {
  const std::int64_t group_rows = group_rows_of(problem);
  return row / group_rows * problem.group_stride + row % group_rows * stride_of(problem);
}

/// How many rows, this one included, its group still has.
[[nodiscard]] constexpr std::int64_t rows_to_end_of_group(const Problem& problem, std::int64_t row) noexcept {
  const std::int64_t group_rows = group_rows_of(problem);
  return std::min(problem.rows - row, group_rows - row % group_rows);
}

/// Whether the elements of each row lie side by side.
[[nodiscard]] constexpr bool elements_are_adjacent(const Problem& problem) noexcept {
  return element_stride_of(problem) == 1;
}

/// Whether every row begins row_stride after the one before it.
[[nodiscard]] constexpr bool has_one_group(const Problem& problem) noexcept {
  return problem.rows <= group_rows_of(problem);
}

/// The same selection of `rows` rows that lie side by side without gaps.
[[nodiscard]] constexpr Problem tight(const Problem& problem, std::int64_t rows) noexcept {
  Problem result = problem;
  result.rows = rows;
  result.row_stride = result.element_stride = result.group_rows = result.group_stride = 0;
  return result;
}

/// From the first element to behind the last one, of a problem with rows; `slot`: the last row ends where one behind it would
/// begin, if that is later. Int is wide enough for it: 64 bits are for a problem that was checked.
// Clang would check products of 128 bits by a function that GCC's runtime does not have.
template <class Int>
[[nodiscard]] __attribute__((no_sanitize("undefined"))) constexpr Int span_of(const Problem& problem,
                                                                              bool slot) noexcept {
  const std::int64_t group_rows = group_rows_of(problem);
  const auto element_stride = static_cast<Int>(element_stride_of(problem));
  const Int stride = problem.row_stride == 0 ? problem.cols * element_stride : Int{problem.row_stride};
  // Groups may interleave: then the last whole one can end behind a last one that is shorter.
  const std::int64_t whole = problem.rows / group_rows;
  const std::int64_t rest = problem.rows % group_rows;
  const Int of_whole = whole == 0 ? Int{0} : Int{whole - 1} * problem.group_stride + (group_rows - 1) * stride;
  const Int of_rest = rest == 0 ? Int{0} : Int{whole} * problem.group_stride + (rest - 1) * stride;
  const Int row = (problem.cols - 1) * element_stride + 1;
  return std::max(of_whole, of_rest) + (slot ? std::max(row, stride) : row);
}

}  // namespace rtopk::core
