// One selection on a tensor.
#pragma once

#include <rtopk/rtopk.hpp>

#include "rows.hpp"

namespace rtopk::torch_binding {

/// The library's name for a tensor's elements. Throws, with what is accepted, where it has none.
DType element_type_of(const Tensor& tensor);

/// Runs `problem` on these rows: sizes, stride, type and device are filled in here. Throws what a status says.
void select(const Rows& rows, Problem problem, const Output& output);

}  // namespace rtopk::torch_binding
