// The oracle: what the contract says the result is, computed in the most obvious way. It reads the public headers alone
// and shares no code with the library, so that a mistake cannot be on both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <rtopk/select.hpp>

namespace rtopk_test {

/// The selection of one row.
struct RowSelection {
  std::vector<std::int64_t> by_value;  ///< Best first, ties by ascending index.
  std::vector<std::int64_t> by_index;  ///< The same indices, ascending.
  std::int32_t passes = 0;
  bool passes_defined = false;  ///< The contract fixes the number of passes for this row.
};

/// The selection of every row of `input` for the problem's k, direction, search, max_iter and epsilon. The form, the
/// order and the index type do not matter here.
std::vector<RowSelection> select(const rtopk::Problem& problem, const void* input);

/// Where an element lies, in elements from the beginning of the input.
std::int64_t place_of(const rtopk::Problem& problem, std::int64_t row, std::int64_t column);

/// The element as a number. Exact: every value of every type is a double.
double decode(rtopk::DType dtype, const void* element);

}  // namespace rtopk_test
