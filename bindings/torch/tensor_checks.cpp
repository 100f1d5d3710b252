// Checks of tensors.
#include "tensor_checks.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include <torch/csrc/stable/ops.h>

#include "execution.hpp"

namespace rtopk::torch_binding {

using torch::headeronly::ScalarType;

namespace {

std::int32_t device_type_of(const Tensor& tensor) {
  std::int32_t type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &type));
  return type;
}

/// Distance from the first to the last element. Sizes must be at least 1.
std::int64_t extent(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) || __builtin_add_overflow(sum, reach, &sum)) {
      refuse("the extent of a tensor does not fit in 64 bits; accepted: smaller sizes or strides");
    }
  }
  return sum;
}

struct Bytes {
  std::uintptr_t begin;
  std::uintptr_t size;
};

Bytes bytes_of(const Tensor& tensor) {
  const auto element = static_cast<std::uintptr_t>(tensor.element_size());
  return {reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()),
          (static_cast<std::uintptr_t>(extent(tensor)) + 1) * element};
}

/// The greatest common divisor of all strides, in bytes; 0 for a single element.
std::uintptr_t common_stride(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  std::int64_t common = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1) common = std::gcd(common, strides[i]);
  }
  return static_cast<std::uintptr_t>(common) * static_cast<std::uintptr_t>(tensor.element_size());
}

}  // namespace

void check_memory(const char* name, const Tensor& tensor) {
  if (!tensor.defined()) refuse(std::string(name) + " is undefined; accepted: a tensor");
  std::int32_t layout = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_layout(tensor.get(), &layout));
  if (layout != aoti_torch_layout_strided() || !(tensor.is_cpu() || tensor.is_cuda())) {
    refuse(std::string(name) + " has another layout or device; accepted: a strided tensor on a CPU or a GPU");
  }
  if (tensor.numel() == 0) return;
  std::int64_t bytes = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_storage_size(tensor.get(), &bytes));
  const std::int64_t held = bytes / static_cast<std::int64_t>(tensor.element_size()) - tensor.storage_offset();
  if (extent(tensor) >= held) {
    refuse(std::string(name) + " reaches beyond the end of its storage, which has " + std::to_string(bytes) +
           " bytes; accepted: a tensor whose elements are all in its storage");
  }
  if (tensor.const_data_ptr() == nullptr) refuse(std::string(name) + " has no memory; accepted: a tensor with memory");
}

void check_no_internal_overlap(const char* name, const Tensor& tensor) {
  if (tensor.is_contiguous()) return;
  // In order of ascending stride, each dimension must step over everything that the previous ones reach.
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  std::array<std::size_t, Sizes::kMax> order{};
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(sizes.size(), order.size()));
  std::iota(order.begin(), end, 0);
  std::sort(order.begin(), end, [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  std::int64_t reached = 0;
  for (auto dim = order.begin(); dim != end; ++dim) {
    if (sizes[*dim] <= 1) continue;
    if (strides[*dim] <= reached) {
      refuse(std::string(name) + " may have elements that share memory, and is written to; accepted: one whose " +
             "elements have separate memory, such as its clone()");
    }
    reached += (sizes[*dim] - 1) * strides[*dim];
  }
}

void check_apart(const char* name, const Tensor& tensor, const char* other_name, const Tensor& other) {
  if (tensor.numel() == 0 || other.numel() == 0) return;
  const Bytes a = bytes_of(tensor);
  const Bytes b = bytes_of(other);
  if (a.begin + a.size <= b.begin || b.begin + b.size <= a.begin) return;
  // The ranges overlap, but the tensors may still be different fields of the same records.
  const std::uintptr_t record = std::gcd(common_stride(tensor), common_stride(other));
  if (record > 0) {
    const std::uintptr_t to_b = (b.begin % record + record - a.begin % record) % record;
    const auto a_field = static_cast<std::uintptr_t>(tensor.element_size());
    const auto b_field = static_cast<std::uintptr_t>(other.element_size());
    if (to_b >= a_field && to_b + b_field <= record) return;
  }
  refuse(std::string(name) + " and " + other_name + " share memory; accepted: separate memory for each");
}

void check_dims(const char* name, const Tensor& tensor, std::int64_t dims) {
  check_memory(name, tensor);
  if (tensor.dim() != dims) {
    refuse(std::string(name) + " has " + std::to_string(tensor.dim()) +
           " dimensions; accepted: " + std::to_string(dims));
  }
}

void check_size(const char* name, const Tensor& tensor, std::int64_t dim, std::int64_t size, const char* why) {
  if (tensor.size(dim) != size) {
    refuse(std::string(name) + " has size " + std::to_string(tensor.size(dim)) + " in dimension " +
           std::to_string(dim) + "; accepted: " + std::to_string(size) + ", " + why);
  }
}

void check_device(const char* name, const Tensor& tensor, const Tensor& like, const char* name_of_like) {
  if (device_type_of(tensor) != device_type_of(like) || tensor.get_device_index() != like.get_device_index()) {
    refuse(std::string(name) + " is on another device than " + name_of_like + "; accepted: all tensors on one device");
  }
}

Tensor contiguous_of(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}

Tensor empty_matrix(std::int64_t rows, std::int64_t cols, const Tensor& like) {
  return empty_contiguous({.count = 2, .each = {rows, cols}}, dtype_of(like), like);
}

Tensor empty_vector(std::int64_t count, const Tensor& like) { return empty_vector(count, like, dtype_of(like)); }

Tensor empty_vector(std::int64_t count, const Tensor& like, std::int32_t dtype) {
  return empty_contiguous({.count = 1, .each = {count}}, dtype, like);
}

void check_floats(const char* name, const Tensor& tensor, std::int64_t dims, const Tensor& like,
                  const char* name_of_like) {
  check_dims(name, tensor, dims);
  if (tensor.scalar_type() != ScalarType::Float) refuse(std::string(name) + " is not float32; accepted: float32");
  check_device(name, tensor, like, name_of_like);
}

const float* floats(const Tensor& tensor) { return static_cast<const float*>(tensor.const_data_ptr()); }
float* mutable_floats(const Tensor& tensor) { return static_cast<float*>(tensor.mutable_data_ptr()); }

IndexType selector_type_of(const Tensor& selectors, std::int64_t cols) {
  check_dims("selectors", selectors, 2);
  const ScalarType type = selectors.scalar_type();
  if (type != ScalarType::Byte && type != ScalarType::UInt16)
    refuse("selectors is neither uint8 nor uint16; accepted: one of them");
  if (cols < 1 || cols > (type == ScalarType::Byte ? 256 : 65536)) {
    refuse("cols is " + std::to_string(cols) + "; accepted: 1 to 256 with selectors of uint8, to 65536 with uint16");
  }
  return type == ScalarType::Byte ? IndexType::u8 : IndexType::u16;
}

}  // namespace rtopk::torch_binding
