// Operators that other files of the binding call.
#pragma once

#include <cstdint>
#include <tuple>

#include <torch/headeronly/core/ScalarType.h>

#include "rows.hpp"

namespace rtopk::torch_binding {

/// torch.ops.rtopk.topk for a tensor on a CPU or a GPU. `printed` is the rule of max_iter, and `bisection` the
/// search. Throws if an argument is invalid.
std::tuple<Tensor, Tensor> topk(const Tensor& self, std::int64_t k, std::int64_t dim, bool largest, bool sorted,
                                std::int64_t max_iter, double epsilon, torch::headeronly::ScalarType index_dtype,
                                bool printed, bool bisection);

}  // namespace rtopk::torch_binding
