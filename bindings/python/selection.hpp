// One selection from one array.
#pragma once

#include <nanobind/nanobind.h>

#include "array.hpp"
#include "options.hpp"
#include "results.hpp"

namespace rtopk::python_binding {

/// Selects on the device of the array. Returns the array of a form that has one, or a tuple of two, with thresholds of
/// three. Where rows have a length, start or k of their own and k is beyond the columns, results are as wide as these.
/// For an array on a GPU whose rows no kernel can read in place, None: the caller makes a copy. In host memory such a
/// copy is made here. `stream`: of a GPU.
nanobind::object select(const Array& array, const Options& options, Allocator& allocator, void* stream = nullptr);

}  // namespace rtopk::python_binding
