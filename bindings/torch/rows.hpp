// A tensor seen as rows along one of its dimensions, and results put back into the tensor's shape.
#pragma once

#include <cstdint>
#include <optional>

#include <torch/csrc/stable/tensor.h>

namespace rtopk::torch_binding {

using torch::stable::Tensor;
using MaybeTensor = std::optional<Tensor>;

/// Rows as a Problem describes them.
struct Rows {
  Tensor tensor;  ///< Holds the memory, with the rows' dimension last: a view, or a copy where there are no such rows.
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  std::int64_t row_stride = 1;
  std::int64_t element_stride = 1;
  std::int64_t group_rows = 0;
  std::int64_t group_stride = 0;
};

/// `dim` as a number from 0 on. Throws where the tensor has no such dimension; a tensor without any has dimension 0.
std::int64_t wrapped_dim(const Tensor& self, std::int64_t dim);

/// The rows along `dim` (from 0 on). Copies only where the other dimensions have more than two strides between them.
Rows rows_along(const Tensor& self, std::int64_t dim);

/// An uninitialised contiguous tensor for `count` results of each of these rows, on their device.
Tensor empty_results(const Rows& rows, std::int64_t count, std::int32_t dtype);

/// From results with the rows' dimension last to a contiguous tensor that has it where it was.
Tensor results_along(const Tensor& results, std::int64_t dim);

/// The sizes of a tensor without an allocation, which would be felt in a small call.
struct Sizes {
  static constexpr std::int64_t kMax = 64;  ///< torch's own limit for most operators
  std::int64_t count = 0;
  std::int64_t each[kMax];
};

/// As PyTorch's C functions number types.
std::int32_t dtype_of(const Tensor& tensor);

/// An uninitialised contiguous tensor on the device of `like`.
Tensor empty_contiguous(const Sizes& sizes, std::int32_t dtype, const Tensor& like);

/// The same with the sizes of `like`.
Tensor empty_of_type(std::int32_t dtype, const Tensor& like);

}  // namespace rtopk::torch_binding
