// Arrays of NumPy, read and made without its headers: through __array_struct__, which every version has.
#pragma once

#include <nanobind/nanobind.h>

#include "array.hpp"
#include "results.hpp"

namespace rtopk::python_binding {

/// An ndarray as a view of its memory. `owner` keeps the description alive while it is read.
Array view_of_numpy(nanobind::handle array);

/// Results as ndarrays, by numpy.empty.
class NumpyAllocator final : public Allocator {
 public:
  /// `like`: the input, whose dtype results have. A byte-swapped one has results in this machine's order.
  NumpyAllocator(nanobind::handle like, bool swapped) : like_(like), swapped_(swapped) {}

  Result make(const Shape& shape, std::int64_t axis, ResultType type, bool zero) override;
  Result workspace(std::size_t bytes) override;

 private:
  nanobind::handle like_;
  bool swapped_;
};

}  // namespace rtopk::python_binding
