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
};

/// The arguments as they come from Python: a form as Form numbers it, and a tuple of the others in the order of
/// top_k: k, axis, mode, sorted, nan, max_iter, epsilon, rule, search, threads, index_dtype. Throws TypeError or ValueError
/// with the name of an argument and what is accepted.
Options parse_options(int form, nanobind::handle others);

}  // namespace rtopk::python_binding
