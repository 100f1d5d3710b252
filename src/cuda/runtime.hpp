// Errors of the CUDA runtime as a Status.
#pragma once

#include <rtopk/types.hpp>

namespace rtopk::cuda {

/// `error` is a cudaError_t.
Status runtime_error(const char* what, int error) noexcept;

}  // namespace rtopk::cuda
