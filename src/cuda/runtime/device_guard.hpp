// Sets the current device for the length of a call.
#pragma once

#include <cuda_runtime_api.h>

namespace rtopk::cuda {

/// Makes a device current for its lifetime.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    error_ = cudaGetDevice(&before_);
    if (error_ == cudaSuccess && before_ != device) {
      error_ = cudaSetDevice(device);
      switched_ = error_ == cudaSuccess;
    }
    if (error_ != cudaSuccess) cudaGetLastError();  // reported here: the caller's own checks must not find it
  }
  ~DeviceGuard() {
    if (switched_) cudaSetDevice(before_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  [[nodiscard]] cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  bool switched_ = false;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace rtopk::cuda
