// Long rows that are fewer than the threads: tasks select from parts of a row, then one selects from their results.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/select.hpp>

namespace rtopk::cpu {

/// True if the selection can be made in this many parts of each row.
[[nodiscard]] bool can_split(const Problem& problem, std::int64_t parts) noexcept;

/// The k best of each part of one row; each part is a row. What is left of the row behind the last part is not in it.
[[nodiscard]] Problem parts_of_row(const Problem& problem, std::int64_t parts) noexcept;

/// The k best of a row's candidates: the results of its parts in order, then what is left of it.
[[nodiscard]] Problem candidates_of_rows(const Problem& problem, std::int64_t parts) noexcept;

/// The parts of the workspace of a split selection, each aligned to kAlignment.
struct SplitLayout {
  static constexpr std::size_t kAlignment = 64;
  std::size_t values = 0;   ///< Candidates of each row.
  std::size_t places = 0;   ///< Where they are in their part: i64.
  std::size_t chosen = 0;   ///< Which candidates are the k best of each row: i64.
  std::size_t scratch = 0;  ///< Of the tasks.
  std::size_t bytes = 0;    ///< Includes room to align a base of any address.
};

/// `scratch_bytes`: of all tasks together.
[[nodiscard]] SplitLayout split_layout(const Problem& problem, std::int64_t parts, std::size_t scratch_bytes) noexcept;

}  // namespace rtopk::cpu
