// What operators on several tensors ask of them, and the tensors that they return. The checks throw what is wrong.
#pragma once

#include <cstdint>

#include <rtopk/types.hpp>

#include "rows.hpp"

namespace rtopk::torch_binding {

/// A strided tensor on a CPU or a GPU whose storage holds all of its elements.
void check_memory(const char* name, const Tensor& tensor);

/// The same, with so many dimensions. It comes before the others here, which ask nothing of that.
void check_dims(const char* name, const Tensor& tensor, std::int64_t dims);
void check_size(const char* name, const Tensor& tensor, std::int64_t dim, std::int64_t size, const char* why);
void check_device(const char* name, const Tensor& tensor, const Tensor& like, const char* name_of_like);

/// A tensor to write into: each element has memory of its own.
void check_no_internal_overlap(const char* name, const Tensor& tensor);
/// Two tensors to write into share no memory.
void check_apart(const char* name, const Tensor& tensor, const char* other_name, const Tensor& other);

/// float32 alone, on the device of `like`.
void check_floats(const char* name, const Tensor& tensor, std::int64_t dims, const Tensor& like,
                  const char* name_of_like);
const float* floats(const Tensor& tensor);
float* mutable_floats(const Tensor& tensor);

/// Of selectors for rows of `cols` columns.
IndexType selector_type_of(const Tensor& selectors, std::int64_t cols);

/// Uninitialised, of the type and on the device of `like`.
Tensor empty_matrix(std::int64_t rows, std::int64_t cols, const Tensor& like);
Tensor empty_vector(std::int64_t count, const Tensor& like);

}  // namespace rtopk::torch_binding
