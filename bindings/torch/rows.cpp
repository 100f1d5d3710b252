#include "rows.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include <torch/csrc/stable/ops.h>

namespace rtopk::torch_binding {
namespace {

/// Whether the last dimension's elements lie side by side and all other dimensions are one with a constant stride; if so,
/// `seen` gets the numbers.
bool has_rows(const Tensor& tensor, Rows& seen) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  const std::size_t last = sizes.size() - 1;
  seen.rows = 1;
  seen.cols = sizes[last];
  seen.row_stride = seen.cols;
  if (seen.cols > 1 && strides[last] != 1) return false;
  std::int64_t next_stride = 0;
  for (std::size_t i = last; i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (seen.rows == 1) {
      seen.row_stride = strides[i];
    } else if (strides[i] != next_stride) {
      return false;
    }
    next_stride = strides[i] * sizes[i];
    seen.rows *= sizes[i];
  }
  // Expanded and overlapping rows are not what the library takes.
  return seen.rows <= 1 || seen.row_stride >= seen.cols;
}

Sizes sizes_of(const Tensor& tensor) {
  const auto shape = tensor.sizes();
  Sizes sizes;
  sizes.count = static_cast<std::int64_t>(shape.size());
  if (sizes.count > Sizes::kMost) {
    throw std::runtime_error("rtopk: the tensor has " + std::to_string(sizes.count) +
                             " dimensions; accepted: at most " + std::to_string(Sizes::kMost));
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
  Rows seen{.tensor = dim == dims - 1 ? self : torch::stable::transpose(self, dim, dims - 1)};
  if (self.numel() == 0) {  // of any sizes and strides, whose products need not fit
    seen.rows = 0;
    seen.cols = seen.row_stride = self.size(dim);
    return seen;
  }
  if (!has_rows(seen.tensor, seen)) {
    seen.tensor = torch::stable::contiguous(seen.tensor);
    seen.row_stride = seen.cols;
    seen.rows = seen.tensor.numel() / seen.cols;
  }
  return seen;
}

std::int32_t dtype_of(const Tensor& tensor) {
  std::int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  return dtype;
}

Tensor empty_contiguous(const Sizes& sizes, std::int32_t dtype, const Tensor& like) {
  std::int64_t strides[Sizes::kMost];
  std::int64_t stride = 1;
  for (std::int64_t i = sizes.count; i-- > 0;) {
    strides[i] = stride;
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(sizes.each[i], 1), &stride)) {
      throw std::runtime_error("rtopk: the sizes of a result are too large for strides of 64 bits");
    }
  }
  std::int32_t device_type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_empty_strided(sizes.count, sizes.each, strides, dtype, device_type, like.get_device_index(), &handle));
  return Tensor(handle);
}

Tensor empty_of_type(std::int32_t dtype, const Tensor& like) { return empty_contiguous(sizes_of(like), dtype, like); }

Tensor empty_results(const Rows& rows, std::int64_t count, std::int32_t dtype) {
  Sizes sizes = sizes_of(rows.tensor);
  if (sizes.count > 0) sizes.each[sizes.count - 1] = count;
  return empty_contiguous(sizes, dtype, rows.tensor);
}

Tensor results_along(const Tensor& results, std::int64_t dim) {
  const std::int64_t last = results.dim() - 1;
  if (dim >= last) return results;
  // Not contiguous(): it keeps a tensor as it is whose strides differ only where a size is 1, and torch.topk's do not.
  Sizes sizes = sizes_of(results);
  std::swap(sizes.each[dim], sizes.each[last]);
  Tensor put_back = empty_contiguous(sizes, dtype_of(results), results);
  return torch::stable::copy_(put_back, torch::stable::transpose(results, dim, last));
}

}  // namespace rtopk::torch_binding
