// Views of tensors as rows.
#include "rows.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include <torch/csrc/stable/ops.h>

#include "common/row_layout.hpp"

namespace rtopk::torch_binding {
namespace {

/// Whether a Problem can describe the rows along the last dimension. If so, writes it to `seen`.
bool has_rows(const Tensor& tensor, Rows& seen) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  bindings::RowLayout layout;
  const bool found = bindings::describe_rows(sizes.data(), strides.data(), sizes.size(), layout);
  seen.rows = layout.rows;
  seen.cols = layout.cols;
  seen.row_stride = layout.row_stride;
  seen.element_stride = layout.element_stride;
  seen.group_rows = layout.group_rows;
  seen.group_stride = layout.group_stride;
  return found;
}

/// A view with dimension `from` moved to `to`. The others keep their order.
Tensor moved(Tensor tensor, std::int64_t from, std::int64_t to) {
  const std::int64_t step = from < to ? 1 : -1;
  for (std::int64_t i = from; i != to; i += step) tensor = torch::stable::transpose(tensor, i, i + step);
  return tensor;
}

Sizes sizes_of(const Tensor& tensor) {
  const auto shape = tensor.sizes();
  Sizes sizes;
  sizes.count = static_cast<std::int64_t>(shape.size());
  if (sizes.count > Sizes::kMax) {
    throw std::runtime_error("rtopk: the tensor has " + std::to_string(sizes.count) +
                             " dimensions; accepted: at most " + std::to_string(Sizes::kMax));
  }
  std::copy(shape.begin(), shape.end(), sizes.each);
  return sizes;
}

}  // namespace

std::int64_t wrapped_dim(const Tensor& self, std::int64_t dim) {
  const std::int64_t dims = std::max<std::int64_t>(self.dim(), 1);
  if (dim < -dims || dim >= dims) {
    throw std::runtime_error("Dimension out of range (expected to be in range of [" + std::to_string(-dims) + ", " +
                             std::to_string(dims - 1) + "], but got " + std::to_string(dim) + ")");
  }
  return dim < 0 ? dim + dims : dim;
}

Rows rows_along(const Tensor& self, std::int64_t dim) {
  const std::int64_t dims = self.dim();
  if (dims == 0) return {.tensor = self};
  Rows seen{.tensor = moved(self, dim, dims - 1)};
  if (self.numel() == 0) {  // sizes and strides are arbitrary, and their products may overflow
    seen.rows = 0;
    seen.cols = seen.row_stride = self.size(dim);
    return seen;
  }
  if (!has_rows(seen.tensor, seen)) {
    const Tensor copy = torch::stable::contiguous(seen.tensor);
    seen = {.tensor = copy, .rows = copy.numel() / seen.cols, .cols = seen.cols, .row_stride = seen.cols};
  }
  return seen;
}

Rows adjacent_rows(const char* name, const Tensor& tensor) {
  Rows seen{.tensor = tensor};
  if (tensor.numel() == 0) {
    seen.rows = 0;
    seen.cols = seen.row_stride = tensor.size(tensor.dim() - 1);
    return seen;
  }
  if (!has_rows(tensor, seen) || seen.element_stride != 1 || seen.group_rows != 0) {
    throw std::runtime_error("rtopk: " + std::string(name) +
                             " has rows that cannot be read as they lie; accepted: elements side by side along the "
                             "last dimension, and one stride from each row to the next, such as those of its "
                             "contiguous()");
  }
  return seen;
}

std::int32_t dtype_of(const Tensor& tensor) {
  std::int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  return dtype;
}

Tensor empty_contiguous(const Sizes& sizes, std::int32_t dtype, const Tensor& like) {
  std::int64_t strides[Sizes::kMax];
  std::int64_t stride = 1;
  for (std::int64_t i = sizes.count; i-- > 0;) {
    strides[i] = stride;
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(sizes.each[i], 1), &stride)) {
      throw std::runtime_error("rtopk: the strides of a result do not fit in 64 bits; accepted: smaller sizes");
    }
  }
  std::int32_t device_type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  AtenTensorHandle handle = nullptr;
  // Not TORCH_ERROR_CODE_CHECK, whose text names a source file and line: running out of memory is not a bug.
  if (aoti_torch_empty_strided(sizes.count, sizes.each, strides, dtype, device_type, like.get_device_index(),
                               &handle) != AOTI_TORCH_SUCCESS) {
    throw std::runtime_error("rtopk: not enough memory for a tensor of " + std::to_string(stride) + " elements");
  }
  return Tensor(handle);
}

Tensor empty_of_type(std::int32_t dtype, const Tensor& like) { return empty_contiguous(sizes_of(like), dtype, like); }

Tensor empty_results(const Rows& rows, std::int64_t count, std::int32_t dtype) {
  Sizes sizes = sizes_of(rows.tensor);
  if (sizes.count > 0) sizes.each[sizes.count - 1] = count;
  return empty_contiguous(sizes, dtype, rows.tensor);
}

Tensor empty_row_results(const Rows& rows, std::int32_t dtype) {
  Sizes sizes = sizes_of(rows.tensor);
  if (sizes.count > 0) --sizes.count;
  return empty_contiguous(sizes, dtype, rows.tensor);
}

Tensor results_along(const Tensor& results, std::int64_t dim) {
  const std::int64_t last = results.dim() - 1;
  if (dim >= last) return results;
  // Not contiguous(): it returns tensors unchanged if their strides differ only where a size is 1. torch.topk does not.
  const Tensor seen = moved(results, last, dim);
  Tensor put_back = empty_of_type(dtype_of(results), seen);
  return torch::stable::copy_(put_back, seen);
}

}  // namespace rtopk::torch_binding
