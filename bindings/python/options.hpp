// The options of top_k and its other forms.
#pragma once

#include <cstdint>

#include <nanobind/nanobind.h>
#include <rtopk/select.hpp>

namespace rtopk::python_binding {

/// What a call asks for, without the array.
struct Options {
  Problem problem;  ///< Without sizes, strides, element type and device.
  std::int64_t axis = -1;
  bool nan_last = false;
  std::int32_t threads = 0;  ///< 0: as many as the process may use.
  nanobind::handle rows;     ///< For read_general_rows. Invalid: the rows are those of the array.
};

/// The arguments as they come from Python: a form as Form numbers it, and a tuple of the others in the order of
/// top_k: k, axis, mode, sorted, nan, max_iter, epsilon, rule, search, threads, index_dtype. Behind them may be a tuple
/// for read_general_rows. Throws TypeError or ValueError with the name of an argument and what is accepted.
Options parse_options(int form, nanobind::handle others);

// Single arguments, with the same errors.

bool is_text(nanobind::handle value, const char* text);
bool truth(const char* name, nanobind::handle value);
/// From 1 to `most`.
std::int64_t integer_in(const char* name, nanobind::handle value, std::int64_t most, const char* accepted);

}  // namespace rtopk::python_binding
