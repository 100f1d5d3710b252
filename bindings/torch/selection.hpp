// Selection on a tensor.
#pragma once

#include <rtopk/rtopk.hpp>

#include "rows.hpp"

namespace rtopk::torch_binding {

/// The library's element type of a tensor. Throws with the accepted types if there is none.
DType element_type_of(const Tensor& tensor);

/// Throws with the accepted types if select() does not support the tensor's elements. It also supports integers that
/// the library has no type for.
void check_selectable(const Tensor& tensor);

/// The output tensors that the problem's form needs, contiguous, with rows along the last dimension. Values and `dense`
/// have the type of the input.
struct Results {
  const Tensor* values = nullptr;
  const Tensor* indices = nullptr;  ///< Of the problem's index type.
  const Tensor* dense = nullptr;
  const Tensor* mask = nullptr;
  const Tensor* thresholds = nullptr;
};

/// Runs `problem` on these rows. Fills in sizes, strides, type and device. Throws the text of a status that is not ok.
/// `arrays`: those that the problem names.
void select(const Rows& rows, Problem problem, const Results& results, const RowArrays& arrays = {});

}  // namespace rtopk::torch_binding
