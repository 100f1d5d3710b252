// Rows that are more than the rows of a matrix: with lengths, starts and k of their own, segments of a flat array, and
// results that carry ids or places in a paged cache instead of columns.
#pragma once

#include <cstdint>

#include <rtopk/types.hpp>

namespace rtopk {

/// Type of an optional array of integers. none: there is no such array.
enum class ArrayType : std::uint8_t { none, i32, i64 };

/// What the written indices are. Let j be the place of an element in its row, counted from the row's first element.
enum class IndexKind : std::uint8_t {
  column,   ///< The column of the matrix, or with Ragged::offsets the place in the flat input.
  ids,      ///< RowArrays::map has an id beside every element of the input.
  pages,    ///< RowArrays::map is a page table: table[j / page_size] * page_size + j % page_size.
  shifted,  ///< RowArrays::map has one number for each row: that number + j.
};

/// Which arrays describe the rows; RowArrays has their addresses. They are read by the kernels, so a plan, and a CUDA
/// graph, serves any content. No content makes a kernel touch other memory: numbers out of range count as the nearest
/// one in range.
///
/// Row r of a matrix is its columns [starts[r], starts[r] + lengths[r]), cut at `cols`. A missing array means 0 for
/// `starts`, and to the end of the row for `lengths`.
///
/// With `offsets` the input is flat, and row r is its elements [offsets[r], offsets[r + 1]): a segment. `cols` is then
/// the length of the longest segment; of a longer one, the first `cols` elements are its row.
///
/// A row with fewer than k elements has fewer results. Behind them, indices are -1, and values are those that lose
/// against every element: for `largest` -infinity (or the least integer), for `smallest` NaN (or the greatest), and by
/// magnitude 0, NaN or the least integer. What the matrix has outside of a row is never selected.
struct Ragged {
  ArrayType lengths = ArrayType::none;
  ArrayType starts = ArrayType::none;
  ArrayType offsets = ArrayType::none;  ///< rows + 1 numbers. Not with lengths or starts.
  ArrayType k = ArrayType::none;        ///< k of each row, 0 to Problem::k, which is the width of the results.
  std::int64_t elements = 0;            ///< Of the flat input. Only with offsets.

  friend bool operator==(const Ragged&, const Ragged&) = default;
};

/// How indices are written. An index is -1 where there is no result, and where a page is not in its table: the table is
/// too short, has a negative entry, or is not there.
struct IndexMap {
  IndexKind kind = IndexKind::column;
  ArrayType type = ArrayType::none;  ///< Of RowArrays::map; none for kind column.
  /// ids: from one row to the next, 0 means Problem::cols; not with offsets, whose ids are flat like the input.
  /// pages: from one table to the next, 0 means `pages`.
  std::int64_t stride = 0;
  std::int64_t pages = 0;                ///< pages: entries of a table, >= 1.
  std::int64_t page_size = 0;            ///< pages: elements of a page, >= 1.
  std::int64_t tables = 0;               ///< pages: number of tables. 0: one for each row.
  ArrayType table_of = ArrayType::none;  ///< pages: RowArrays::table_of, the table of each row. none: table r.

  friend bool operator==(const IndexMap&, const IndexMap&) = default;
};

/// Addresses of the arrays that a problem names, in memory of its device. Others are ignored.
struct RowArrays {
  const void* lengths = nullptr;   ///< One number for each row.
  const void* starts = nullptr;    ///< One for each row.
  const void* offsets = nullptr;   ///< One for each row, and one more.
  const void* k = nullptr;         ///< One for each row.
  const void* map = nullptr;       ///< As IndexMap says.
  const void* table_of = nullptr;  ///< One for each row.
};

/// Bytes of one number, or 0 if there is no array or `type` is not an enumerator.
[[nodiscard]] constexpr std::size_t size_of(ArrayType type) noexcept {
  switch (type) {
    case ArrayType::none: return 0;
    case ArrayType::i32: return 4;
    case ArrayType::i64: return 8;
  }
  return 0;
}

/// The name of the enumerator, or "?" if the value is not an enumerator.
[[nodiscard]] RTOPK_API const char* name(ArrayType type) noexcept;
[[nodiscard]] RTOPK_API const char* name(IndexKind kind) noexcept;

}  // namespace rtopk
