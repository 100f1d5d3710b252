// The oracle: computes the result that the contract defines, in the most obvious way. It uses only the public headers
// and shares no code with the library, so that no mistake is in both.
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

/// Selects from every row of `input` by the problem's k, direction, search, max_iter, rule and epsilon. Ignores the form, the
/// order and the index type.
std::vector<RowSelection> select(const rtopk::Problem& problem, const void* input);

/// Position of an element, in elements from the start of the input.
std::int64_t place_of(const rtopk::Problem& problem, std::int64_t row, std::int64_t column);

/// The element as a double, which is exact for every type.
double decode(rtopk::DType dtype, const void* element);

}  // namespace rtopk_test
