// Views a tensor as rows along one of its dimensions, and moves results back to the tensor's shape.
#pragma once

#include <cstdint>
#include <optional>

#include <torch/csrc/stable/tensor.h>

namespace rtopk::torch_binding {

using torch::stable::Tensor;
using MaybeTensor = std::optional<Tensor>;

/// The layout of rows as a Problem describes it.
struct Rows {
  Tensor tensor;  ///< Owns the memory, rows along the last dimension: a view, or a copy if there is no such view.
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  std::int64_t row_stride = 1;
  std::int64_t element_stride = 1;
  std::int64_t group_rows = 0;
  std::int64_t group_stride = 0;
};

/// `dim` as a non-negative number. Throws if the tensor has no such dimension. A tensor without dimensions has dim 0.
std::int64_t wrapped_dim(const Tensor& self, std::int64_t dim);

/// The rows along `dim` >= 0. Copies only if the other dimensions do not merge into at most two strides.
Rows rows_along(const Tensor& self, std::int64_t dim);

/// The rows along the last dimension, if kernels can read them as they lie: elements side by side, and one stride, at
/// least as long as a row, from each row to the next. Throws otherwise: nothing is copied. At least one dimension.
Rows adjacent_rows(const char* name, const Tensor& tensor);

/// An uninitialised contiguous tensor for `count` results per row, on the device of the rows.
Tensor empty_results(const Rows& rows, std::int64_t count, std::int32_t dtype);

/// The same for one result per row.
Tensor empty_row_results(const Rows& rows, std::int32_t dtype);

/// Moves the last dimension of results back to `dim`. The result is contiguous.
Tensor results_along(const Tensor& results, std::int64_t dim);

/// The sizes of a tensor without an allocation, which is measurable in small calls.
struct Sizes {
  static constexpr std::int64_t kMax = 64;  ///< torch's own limit for most operators
  std::int64_t count = 0;
  std::int64_t each[kMax];
};

/// The element type as PyTorch's C functions encode it.
std::int32_t dtype_of(const Tensor& tensor);

/// An uninitialised contiguous tensor on the device of `like`.
Tensor empty_contiguous(const Sizes& sizes, std::int32_t dtype, const Tensor& like);

/// The same with the sizes of `like`.
Tensor empty_of_type(std::int32_t dtype, const Tensor& like);

}  // namespace rtopk::torch_binding
