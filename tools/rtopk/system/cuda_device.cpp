#include "system/cuda_device.hpp"

#include <algorithm>

#include <cuda_runtime_api.h>

#include "terminal/failure.hpp"
#include "terminal/text.hpp"

namespace rtopk::tool::gpu {
namespace {

void require_success(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // resets the error, which later calls would report again
  fail("the GPU reported an error: {}: {}", call, cudaGetErrorString(error));
}

cudaStream_t stream_of(void* handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t event_of(void* handle) { return static_cast<cudaEvent_t>(handle); }

}  // namespace

Info info(int ordinal) {
  cudaDeviceProp properties{};
  require_success(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  return {.name = properties.name,
          .memory_bytes = properties.totalGlobalMem,
          .l2_bytes = static_cast<std::uint64_t>(std::max(properties.l2CacheSize, 0))};
}

void use(int ordinal) { require_success(cudaSetDevice(ordinal), "cudaSetDevice"); }

std::uint64_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  require_success(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

OwnedBytes device_bytes(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, std::max<std::size_t>(bytes, 1));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    fail("not enough memory on the GPU: {} are needed at once, {} are free", bytes_text(static_cast<double>(bytes)),
         bytes_text(static_cast<double>(free_memory())));
  }
  require_success(error, "cudaMalloc");
  return {static_cast<std::byte*>(data), [](std::byte* owned) noexcept { cudaFree(owned); }};
}

OwnedBytes pinned_bytes(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaHostAlloc(&data, std::max<std::size_t>(bytes, 1), cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    fail("not enough memory: {} are needed that the GPU can copy from", bytes_text(static_cast<double>(bytes)));
  }
  require_success(error, "cudaHostAlloc");
  return {static_cast<std::byte*>(data), [](std::byte* owned) noexcept { cudaFreeHost(owned); }};
}

Stream::Stream() {
  cudaStream_t stream = nullptr;
  require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  handle_ = stream;
}

Stream::~Stream() {
  cudaStreamSynchronize(stream_of(handle_));
  cudaStreamDestroy(stream_of(handle_));
}

void Stream::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  require_success(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(handle_)), "cudaMemcpyAsync");
}

void Stream::fill(void* data, int byte, std::size_t bytes) {
  if (bytes == 0) return;
  require_success(cudaMemsetAsync(data, byte, bytes, stream_of(handle_)), "cudaMemsetAsync");
}

void Stream::wait() { require_success(cudaStreamSynchronize(stream_of(handle_)), "cudaStreamSynchronize"); }

Event::Event() {
  cudaEvent_t event = nullptr;  // waiting threads sleep, since the CPUs are needed for reading and writing
  require_success(cudaEventCreateWithFlags(&event, cudaEventBlockingSync), "cudaEventCreateWithFlags");
  handle_ = event;
}

Event::~Event() { cudaEventDestroy(event_of(handle_)); }

void Event::record(const Stream& stream) {
  require_success(cudaEventRecord(event_of(handle_), stream_of(stream.handle())), "cudaEventRecord");
}

void Event::wait() { require_success(cudaEventSynchronize(event_of(handle_)), "cudaEventSynchronize"); }

double Event::seconds_since(const Event& earlier) const {
  float milliseconds = 0.0F;
  require_success(cudaEventElapsedTime(&milliseconds, event_of(earlier.handle_), event_of(handle_)),
                  "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace rtopk::tool::gpu
