// Where results are written to: each kind of array allocates its own.
#pragma once

#include <cstddef>

#include <nanobind/nanobind.h>

#include "array.hpp"

namespace rtopk::python_binding {

/// An array for results, and where its elements begin.
struct Result {
  nanobind::object array;
  void* data = nullptr;
};

/// Allocates on the device of the input.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// An array of this shape whose elements lie side by side along `axis`, as the library writes them; the other
  /// dimensions keep their order. Without dimensions, `axis` is -1. `zero`: filled with zeros, else with anything.
  virtual Result make(const Shape& shape, std::int64_t axis, ResultType type, bool zero) = 0;
  /// Memory of a GPU, freed when the object is; only for arrays on a GPU.
  virtual Result workspace(std::size_t bytes) = 0;
};

/// `shape` without the dimension `axis`; none of it is -1.
inline Shape without(const Shape& shape, std::int64_t axis) {
  Shape others;
  for (std::int64_t i = 0; i < shape.dims; ++i) {
    if (i != axis) others.each[others.dims++] = shape.each[i];
  }
  return others;
}

/// `shape` with the dimension `axis` moved behind the others.
inline Shape with_last(const Shape& shape, std::int64_t axis) {
  Shape moved = without(shape, axis);
  if (axis >= 0) moved.each[moved.dims++] = shape.each[axis];
  return moved;
}

/// The shape as a tuple.
inline nanobind::object as_tuple(const Shape& shape) {
  nanobind::object tuple = nanobind::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.dims)));
  for (std::int64_t i = 0; tuple.is_valid() && i < shape.dims; ++i) {
    PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape.each[i]));
  }
  if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
  return tuple;
}

/// An array with its last dimension moved to `axis`: a view, by the array's own transpose().
inline nanobind::object with_axis(nanobind::object array, std::int64_t dims, std::int64_t axis) {
  if (axis == dims - 1) return array;
  Shape order;
  order.dims = dims;
  for (std::int64_t i = 0, from = 0; i < dims; ++i) order.each[i] = i == axis ? dims - 1 : from++;
  return array.attr("transpose")(as_tuple(order));
}

}  // namespace rtopk::python_binding
