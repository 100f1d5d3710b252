// The oracle: computes the result that the contract defines, in the most obvious way. It uses only the public headers
// and shares no code with the library, so that no mistake is in both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <rtopk/select.hpp>

namespace rtopk_test {

/// The content of the arrays that describe rows and indices, for arrays of either type.
struct RowNumbers {
  std::vector<std::int64_t> lengths, starts, offsets, k, map, table_of;
};

/// The selection of one row. Indices are columns, or places in the flat input.
struct RowSelection {
  std::vector<std::int64_t> by_value;  ///< Best first, ties by ascending index.
  std::vector<std::int64_t> by_index;  ///< The same indices, ascending.
  std::int32_t passes = 0;
  bool passes_defined = false;  ///< The contract fixes the number of passes for this row.

  std::int64_t start = 0;   ///< The index of its first element.
  std::int64_t length = 0;  ///< Its number of elements.
  bool is_short = false;    ///< It has fewer elements than it should have results, or should have none.
};

/// Selects from every row of `input` by the problem's k, direction, search, max_iter, rule, epsilon, magnitude and
/// ragged. Ignores the form, the order, the index type and the index map.
std::vector<RowSelection> select(const rtopk::Problem& problem, const void* input, const RowNumbers& numbers = {});

/// What the problem writes for the element with this index, in a row that starts at `start`.
std::int64_t written_index(const rtopk::Problem& problem, const RowNumbers& numbers, std::int64_t row,
                           std::int64_t start, std::int64_t index);

/// The bits of the value that stands where there is no result.
std::uint64_t losing_bits(const rtopk::Problem& problem);

/// True if a problem has any of the options of general rows.
bool is_general(const rtopk::Problem& problem);
bool is_flat(const rtopk::Problem& problem);

/// Position of an element, in elements from the start of the input.
std::int64_t place_of(const rtopk::Problem& problem, std::int64_t row, std::int64_t column);

/// The element as a double, which is exact for every type.
double decode(rtopk::DType dtype, const void* element);

}  // namespace rtopk_test
