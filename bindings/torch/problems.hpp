// What operators that select have in common: checks of their arguments, and the problem that these describe.
#pragma once

#include <cstdint>

#include <torch/headeronly/core/ScalarType.h>

#include <rtopk/select.hpp>

#include "rows.hpp"

namespace rtopk::torch_binding {

/// Checks for memory and elements that can be selected from.
void check_input(const Tensor& self);

/// Checks for 0 to the size of the dimension. As in torch.topk, a tensor without dimensions has one element.
void check_k(const Tensor& self, std::int64_t k, std::int64_t dim);

/// As in torch.topk, the element of a tensor without dimensions is selected even if k is 0.
std::int64_t results_per_row(const Tensor& self, std::int64_t k);

Problem problem_of(std::int64_t k, bool largest, std::int64_t max_iter, double epsilon, bool printed, bool bisection);

/// Throws for other types than int64 and int32.
IndexType index_type_of(torch::headeronly::ScalarType dtype);
/// The type as PyTorch's C functions encode it.
std::int32_t index_dtype_of(IndexType type);

/// True if there are no rows or k == 0. Call it after all checks.
bool nothing_to_do(const Rows& rows, const Problem& problem);

}  // namespace rtopk::torch_binding
