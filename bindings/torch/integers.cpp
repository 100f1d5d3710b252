// Selection from integer tensors other than int32.
#include "integers.hpp"

#include <array>
#include <optional>
#include <utility>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "execution.hpp"

namespace rtopk::torch_binding {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::detail::from;
using torch::stable::detail::to;

/// The tensor, with a dimension added if it has none.
Tensor with_rows(const Tensor& tensor) { return tensor.dim() == 0 ? torch::stable::unsqueeze(tensor, 0) : tensor; }

Tensor converted(const Tensor& tensor, std::int32_t dtype) {
  Tensor result = empty_of_type(dtype, tensor);
  return torch::stable::copy_(result, tensor);
}

void copy_into(const Tensor& to, const Tensor& source) {
  Tensor destination = to;
  torch::stable::copy_(destination, source);
}

/// torch.sort(tensor, stable=True, descending=descending)
std::pair<Tensor, Tensor> sorted(const Tensor& tensor, bool descending) {
  std::array<StableIValue, 4> stack{from(tensor), from(std::optional<bool>(true)), from(std::int64_t{-1}),
                                    from(descending)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::sort", "stable", stack.data(), TORCH_ABI_VERSION));
  return {to<Tensor>(stack[0]), to<Tensor>(stack[1])};
}

Tensor gathered(const Tensor& tensor, const Tensor& indices) {
  std::array<StableIValue, 4> stack{from(tensor), from(std::int64_t{-1}), from(indices), from(false)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::gather", "", stack.data(), TORCH_ABI_VERSION));
  return to<Tensor>(stack[0]);
}

/// Fills `result` with zeros, and with `values` at `indices`.
void scatter_into(const Tensor& result, const Tensor& indices, const Tensor& values) {
  Tensor rows = with_rows(result);
  torch::stable::zero_(rows);
  std::array<StableIValue, 4> stack{from(rows), from(std::int64_t{-1}), from(indices), from(values)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::scatter_", "src", stack.data(), TORCH_ABI_VERSION));
  [[maybe_unused]] const Tensor owned = to<Tensor>(stack[0]);
}

void select_by_sort(const Tensor& input, const Problem& problem, const Results& results) {
  if (problem.max_iter != 0 || problem.epsilon != 0) {
    refuse("max_iter and epsilon are not supported for int64, which is sorted; accepted: neither of them");
  }
  if (problem.search != Search::fast) {
    refuse("search is 'bisection', which is not supported for int64: it is sorted; accepted: 'fast'");
  }
  const Tensor rows = with_rows(input);
  auto [values, indices] = sorted(rows, problem.direction == Direction::largest);
  values = torch::stable::narrow(values, -1, 0, problem.k);
  indices = torch::stable::narrow(indices, -1, 0, problem.k);
  if (results.mask != nullptr) {
    Tensor ones = empty_of_type(aoti_torch_dtype_bool(), indices);
    scatter_into(*results.mask, indices, torch::stable::fill_(ones, 1));
  } else if (results.dense != nullptr) {
    scatter_into(*results.dense, indices, values);
  } else {
    if (problem.order != Order::by_value) {
      indices = sorted(indices, false).first;
      values = gathered(rows, indices);
    }
    copy_into(with_rows(*results.values), values);
    copy_into(with_rows(*results.indices), indices);
  }
}

void select_widened(const Rows& rows, const Problem& problem, const Results& results) {
  const Rows wide{converted(rows.tensor, aoti_torch_dtype_int32()), rows.rows, rows.cols, rows.cols};
  Results wide_results = results;
  const Tensor*& elements = results.dense != nullptr ? wide_results.dense : wide_results.values;
  const Tensor* const wanted = elements;
  if (wanted == nullptr) {  // only the mask
    select(wide, problem, results);
    return;
  }
  const Tensor wide_elements = empty_of_type(aoti_torch_dtype_int32(), *wanted);
  elements = &wide_elements;
  select(wide, problem, wide_results);
  copy_into(*wanted, wide_elements);
}

}  // namespace

bool is_other_integer(const Tensor& tensor) {
  const ScalarType type = tensor.scalar_type();
  return type == ScalarType::Long || type == ScalarType::Short || type == ScalarType::Char || type == ScalarType::Byte;
}

void select_integers(const Rows& rows, const Problem& problem, const Results& results) {
  if (rows.tensor.scalar_type() == ScalarType::Long) {
    select_by_sort(rows.tensor, problem, results);
  } else {
    select_widened(rows, problem, results);
  }
}

}  // namespace rtopk::torch_binding
