// Selection from integer types that the library does not have. Types of 8 and 16 bits are converted to int32, which
// keeps their order. torch sorts int64: its stable sort keeps equal elements in index order.
#pragma once

#include "selection.hpp"

namespace rtopk::torch_binding {

/// True for int64, int16, int8 and uint8.
bool is_other_integer(const Tensor& tensor);

/// select() for these types.
void select_integers(const Rows& rows, const Problem& problem, const Results& results);

}  // namespace rtopk::torch_binding
