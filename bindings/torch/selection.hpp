// One selection on a tensor.
#pragma once

#include <rtopk/rtopk.hpp>

#include "rows.hpp"

namespace rtopk::torch_binding {

/// The library's name for a tensor's elements. Throws, with what is accepted, where it has none.
DType element_type_of(const Tensor& tensor);

/// Throws, with what is accepted, where select() does not take a tensor's elements. It takes integers that the library has
/// no name for as well.
void check_selectable(const Tensor& tensor);

/// Where results go: what the problem's form writes, contiguous and with the rows' dimension last. Values and `dense` have the
/// type of the input.
struct Results {
  const Tensor* values = nullptr;
  const Tensor* indices = nullptr;  ///< Of the problem's index type.
  const Tensor* dense = nullptr;
  const Tensor* mask = nullptr;
};

/// Runs `problem` on these rows: sizes, stride, type and device are filled in here. Throws what a status says.
void select(const Rows& rows, Problem problem, const Results& results);

}  // namespace rtopk::torch_binding
