#include "tensor_checks.hpp"

#include <string>

#include <torch/csrc/stable/ops.h>

#include "execution.hpp"

namespace rtopk::torch_binding {

using torch::headeronly::ScalarType;

void check_dims(const char* name, const Tensor& tensor, std::int64_t dims) {
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
  if (tensor.is_cpu() != like.is_cpu() || tensor.get_device_index() != like.get_device_index()) {
    refuse(std::string(name) + " is on another device than " + name_of_like + "; accepted: all tensors on one device");
  }
}

Tensor empty_matrix(std::int64_t rows, std::int64_t cols, const Tensor& like) {
  return empty_contiguous({.count = 2, .each = {rows, cols}}, dtype_of(like), like);
}

Tensor empty_vector(std::int64_t count, const Tensor& like) {
  return empty_contiguous({.count = 1, .each = {count}}, dtype_of(like), like);
}

void check_floats(const char* name, const Tensor& tensor, std::int64_t dims, const Tensor& like,
                  const char* name_of_like) {
  check_dims(name, tensor, dims);
  if (tensor.scalar_type() != ScalarType::Float) refuse(std::string(name) + " is not float32, which alone is accepted");
  check_device(name, tensor, like, name_of_like);
}

const float* floats(const Tensor& tensor) { return static_cast<const float*>(tensor.const_data_ptr()); }
float* mutable_floats(const Tensor& tensor) { return static_cast<float*>(tensor.mutable_data_ptr()); }

IndexType selector_type_of(const Tensor& selectors, std::int64_t cols) {
  check_dims("selectors", selectors, 2);
  const ScalarType type = selectors.scalar_type();
  if (type != ScalarType::Byte && type != ScalarType::UInt16) refuse("selectors is neither uint8 nor uint16");
  if (cols < 1 || cols > (type == ScalarType::Byte ? 256 : 65536)) {
    refuse("cols is " + std::to_string(cols) + "; accepted: 1 to 256 with selectors of uint8, to 65536 with uint16");
  }
  return type == ScalarType::Byte ? IndexType::u8 : IndexType::u16;
}

}  // namespace rtopk::torch_binding
