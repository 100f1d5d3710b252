// Errors of the CUDA runtime as a Status.
#pragma once

#include <rtopk/types.hpp>

namespace rtopk::cuda {

/// `error` is a cudaError_t.
Status runtime_error(const char* what, int error) noexcept;

/// The status of launching kernels. Clears the error, so that the caller's own checks do not find it again.
Status launched(int error) noexcept;

}  // namespace rtopk::cuda
