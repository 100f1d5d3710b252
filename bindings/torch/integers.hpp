// Selections of integers that the library has no name for. Those of 8 and 16 bits become int32, which keeps their order; int64
// is sorted by torch, whose stable sort leaves equal elements in ascending index.
#pragma once

#include "selection.hpp"

namespace rtopk::torch_binding {

/// int64, int16, int8 or uint8.
bool is_other_integer(const Tensor& tensor);

/// select() for them.
void select_integers(const Rows& rows, const Problem& problem, const Results& results);

}  // namespace rtopk::torch_binding
