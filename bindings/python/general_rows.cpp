// What Python says about rows.
#include "general_rows.hpp"

#include <string>

#include "errors.hpp"
#include "options.hpp"
#include "results.hpp"

namespace rtopk::python_binding {
namespace {

namespace nb = nanobind;

ArrayType type_named(const char* name, nb::handle dtype) {
  if (is_text(dtype, "int32")) return ArrayType::i32;
  if (is_text(dtype, "int64")) return ArrayType::i64;
  refuse(PyExc_TypeError, std::string(name) + " has dtype " + nb::str(dtype).c_str() + "; accepted: int32 or int64");
}

/// An element of a tuple, which keeps it alive.
nb::handle item(nb::handle tuple, Py_ssize_t i) {
  PyObject* const found = PyTuple_GetItem(tuple.ptr(), i);
  if (found == nullptr) throw nb::python_error();
  return found;
}

/// The address of an array of this shape; null if there is none.
const void* read_array(const char* name, nb::handle array, const Shape& expected, ArrayType& type) {
  if (array.is_none()) return nullptr;
  type = type_named(name, item(array, 2));
  const nb::object shape = nb::borrow(item(array, 1)), accepted = as_tuple(expected);
  if (!shape.equal(accepted)) {
    refuse(PyExc_ValueError, std::string(name) + " has shape " + nb::repr(shape).c_str() +
                                 "; accepted: " + nb::repr(accepted).c_str() + ", one number for each row");
  }
  return reinterpret_cast<const void*>(nb::cast<std::uint64_t>(item(array, 0)));
}

/// The number of segments that such an array describes.
std::int64_t segments_of(nb::handle offsets, const Shape& flat) {
  if (flat.dims != 1) {
    refuse(PyExc_ValueError, "a has " + std::to_string(flat.dims) + " dimensions; accepted with offsets: 1");
  }
  const nb::object shape = nb::borrow(item(offsets, 1));
  const std::int64_t count = nb::len(shape) == 1 ? nb::cast<std::int64_t>(item(shape, 0)) : 0;
  if (count < 1) {
    refuse(PyExc_ValueError, std::string("offsets has shape ") + nb::repr(shape).c_str() +
                                 "; accepted: one dimension, with a number for each segment and one more");
  }
  return count - 1;
}

Shape one_dimension(std::int64_t size) {
  Shape shape;
  shape.dims = 1;
  shape.each[0] = size;
  return shape;
}

}  // namespace

GeneralRows read_general_rows(nb::handle rows, const Shape& shape, std::int64_t axis, Problem& problem) {
  const nb::handle offsets = item(rows, 3);
  GeneralRows general;
  Ragged& ragged = problem.ragged;
  problem.magnitude = truth("magnitude", item(rows, 5));
  problem.thresholds = truth("return_threshold", item(rows, 6));
  if (problem.thresholds && problem.k == 0) {
    refuse(PyExc_ValueError, "k is 0; accepted with return_threshold: 1 or more");
  }
  Shape each = without(shape, axis);
  if (!offsets.is_none()) {
    general.segments = segments_of(offsets, shape);
    general.arrays.offsets = read_array("offsets", offsets, one_dimension(general.segments + 1), ragged.offsets);
    each = one_dimension(general.segments);
    if (!item(rows, 4).is_none()) {
      general.max_length = integer_in("max_length", item(rows, 4), INT64_MAX, "None, or 1 or more");
    }
  } else {
    general.arrays.lengths = read_array("lengths", item(rows, 0), each, ragged.lengths);
    general.arrays.starts = read_array("starts", item(rows, 1), each, ragged.starts);
  }
  general.arrays.k = read_array("row_k", item(rows, 2), each, ragged.k);
  general.takes_any_k = ragged != Ragged{};
  return general;
}

}  // namespace rtopk::python_binding
