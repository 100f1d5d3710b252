// Rows that are more than the rows of an array: with lengths, starts and k of their own, and segments.
#pragma once

#include <cstdint>

#include <nanobind/nanobind.h>
#include <rtopk/select.hpp>

#include "array.hpp"

namespace rtopk::python_binding {

/// What a call says about its rows, and where the numbers of each row are.
struct GeneralRows {
  bool takes_any_k = false;  ///< Rows may have fewer than k elements, so that k may be more than there are columns.
  std::int64_t segments =
      -1;  ///< Rows are segments of the array, which has one dimension. -1: they are along the axis.
  std::int64_t max_length = 0;  ///< Of a segment. 0: not known.
  RowArrays arrays;
};

/// Reads what Python says about the rows of an array of this shape along `axis`, and writes it to the problem too.
/// `rows` is a tuple: lengths, starts, row_k, offsets, max_length, magnitude, return_threshold. Each of the first four
/// is None or an array in C order on the device of the elements, as a tuple of address, shape and the name of its dtype.
/// Throws TypeError or ValueError with the name of an argument and what is accepted.
GeneralRows read_general_rows(nanobind::handle rows, const Shape& shape, std::int64_t axis, Problem& problem);

}  // namespace rtopk::python_binding
