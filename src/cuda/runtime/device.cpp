// Queries a device through the CUDA runtime, and turns the runtime's errors into a Status.
#include <cuda_runtime_api.h>

#include "core/architectures.hpp"
#include "core/checks.hpp"
#include "cuda/backend.hpp"
#include "cuda/runtime/errors.hpp"

namespace rtopk::cuda {

const char* architectures() noexcept { return RTOPK_CUDA_ARCHITECTURES; }

/// What to say where there is no code for a GPU. Otherwise each launch would fail with "no kernel image is available".
static Status no_code_for(Device device, int capability) noexcept {
  cudaDeviceProp properties{};
  const bool known = cudaGetDeviceProperties(&properties, device.ordinal) == cudaSuccess;
  if (!known) cudaGetLastError();
  return core::status(StatusCode::not_supported,
                      "device is cuda:%d, %.60s with compute capability %d.%d, and this build has code for %.60s; "
                      "accepted: cpu, or a build with CMAKE_CUDA_ARCHITECTURES=%d",
                      device.ordinal, known ? properties.name : "a GPU", capability / 10, capability % 10,
                      architectures(), capability);
}

Status runtime_error(const char* what, int error) noexcept {
  return core::status(StatusCode::device_error, "%s: %s", what, cudaGetErrorString(static_cast<cudaError_t>(error)));
}

Status launched(int error) noexcept {
  if (error == cudaSuccess) return {};
  cudaGetLastError();
  return runtime_error("launch", error);
}

Status query_traits(Device device, Traits& traits) noexcept {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    cudaGetLastError();  // clears the error, so that the caller's own checks do not find it
    return core::status(StatusCode::not_supported, "device is cuda:%d, and there is no usable GPU (%s); accepted: cpu",
                        device.ordinal, cudaGetErrorString(error));
  }
  if (device.ordinal < 0 || device.ordinal >= devices) {
    return core::status(StatusCode::invalid_argument, "device is cuda:%d; accepted: cuda:0 to cuda:%d", device.ordinal,
                        devices - 1);
  }
  struct Wanted {
    cudaDeviceAttr attribute;
    int value;
  };
  Wanted major{cudaDevAttrComputeCapabilityMajor, 0};
  Wanted minor{cudaDevAttrComputeCapabilityMinor, 0};
  Wanted multiprocessors{cudaDevAttrMultiProcessorCount, 0};
  Wanted shared{cudaDevAttrMaxSharedMemoryPerBlockOptin, 0};
  for (Wanted* wanted : {&major, &minor, &multiprocessors, &shared}) {
    const cudaError_t error = cudaDeviceGetAttribute(&wanted->value, wanted->attribute, device.ordinal);
    if (error != cudaSuccess) {
      cudaGetLastError();
      return runtime_error("cudaDeviceGetAttribute", error);
    }
  }
  const int capability = 10 * major.value + minor.value;
  if (!core::has_code_for(architectures(), capability)) return no_code_for(device, capability);
  traits = Traits{.device = device,
                  .compute_capability = capability,
                  .multiprocessors = multiprocessors.value,
                  .shared_bytes_per_block = shared.value};
  return {};
}

}  // namespace rtopk::cuda
