// Checks that operators share, and the tensors that they return. A failed check throws.
#pragma once

#include <cstdint>

#include <rtopk/types.hpp>

#include "rows.hpp"

namespace rtopk::torch_binding {

/// Checks for a strided tensor on a CPU or a GPU whose storage holds all of its elements.
void check_memory(const char* name, const Tensor& tensor);

/// The same, and checks the number of dimensions. Call it first: the other checks rely on it.
void check_dims(const char* name, const Tensor& tensor, std::int64_t dims);
void check_size(const char* name, const Tensor& tensor, std::int64_t dim, std::int64_t size, const char* why);
void check_device(const char* name, const Tensor& tensor, const Tensor& like, const char* name_of_like);

/// Checks that all elements have separate memory, so that the tensor can be written.
void check_no_internal_overlap(const char* name, const Tensor& tensor);
/// Checks that two tensors to be written share no memory.
void check_apart(const char* name, const Tensor& tensor, const char* other_name, const Tensor& other);

/// Checks for float32 on the device of `like`.
void check_floats(const char* name, const Tensor& tensor, std::int64_t dims, const Tensor& like,
                  const char* name_of_like);
const float* floats(const Tensor& tensor);
float* mutable_floats(const Tensor& tensor);

/// The type of selectors for rows of `cols` columns.
IndexType selector_type_of(const Tensor& selectors, std::int64_t cols);

/// The tensor, or a contiguous copy. Asking first spares small calls a way through the dispatcher.
Tensor contiguous_of(const Tensor& tensor);

/// Uninitialised, with the type and device of `like`.
Tensor empty_matrix(std::int64_t rows, std::int64_t cols, const Tensor& like);
Tensor empty_vector(std::int64_t count, const Tensor& like);
/// Of another type.
Tensor empty_vector(std::int64_t count, const Tensor& like, std::int32_t dtype);

}  // namespace rtopk::torch_binding
