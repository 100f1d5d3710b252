// Large zero-initialised memory of the CPU and of a GPU.
#include "large_memory.hpp"

#include <cstring>
#include <stdexcept>
#include <string>

#include "mapping.hpp"
#if defined(RTOPK_TEST_CUDA)
#include <cuda_runtime_api.h>
#endif

namespace rtopk_test {
namespace {

class HostZeros final : public LargeMemory {
 public:
  explicit HostZeros(std::size_t bytes) : mapping_(bytes) {}

  [[nodiscard]] void* data() override { return mapping_.data(); }
  void write(std::int64_t offset, const Bytes& bytes) override {
    std::memcpy(mapping_.data() + offset, bytes.data(), bytes.size());
  }
  [[nodiscard]] Bytes read(std::int64_t offset, std::int64_t bytes) override {
    return {mapping_.data() + offset, mapping_.data() + offset + bytes};
  }

 private:
  Mapping mapping_;
};

#if defined(RTOPK_TEST_CUDA)
void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

class CudaZeros final : public LargeMemory {
 public:
  explicit CudaZeros(std::size_t bytes) {
    if (cudaMalloc(&data_, bytes) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      data_ = nullptr;
      return;
    }
    require(cudaMemset(data_, 0, bytes), "cudaMemset");
  }
  ~CudaZeros() override { static_cast<void>(cudaFree(data_)); }

  [[nodiscard]] void* data() override { return data_; }
  void write(std::int64_t offset, const Bytes& bytes) override {
    require(cudaMemcpy(static_cast<std::byte*>(data_) + offset, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
            "cudaMemcpy");
  }
  [[nodiscard]] Bytes read(std::int64_t offset, std::int64_t bytes) override {
    Bytes copy(static_cast<std::size_t>(bytes));
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    require(cudaMemcpy(copy.data(), static_cast<std::byte*>(data_) + offset, copy.size(), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
    return copy;
  }

 private:
  void* data_ = nullptr;
};
#endif

}  // namespace

std::unique_ptr<LargeMemory> LargeMemory::zeros(rtopk::DeviceKind kind, std::int64_t bytes) {
  std::unique_ptr<LargeMemory> memory;
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  if (kind == rtopk::DeviceKind::cpu) memory = std::make_unique<HostZeros>(size);
#if defined(RTOPK_TEST_CUDA)
  if (kind == rtopk::DeviceKind::cuda) memory = std::make_unique<CudaZeros>(size);
#endif
  if (memory == nullptr || memory->data() == nullptr) return nullptr;
  return memory;
}

}  // namespace rtopk_test
