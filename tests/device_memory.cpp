// Guarded memory of the CPU and of a GPU.
#include "device_memory.hpp"

#include <algorithm>
#include <stdexcept>

#include "guarded_buffer.hpp"
#if defined(RTOPK_TEST_CUDA)
#include <cuda_runtime_api.h>
#endif

namespace rtopk_test {
namespace {

class HostMemory final : public DeviceMemory {
 public:
  HostMemory(const std::vector<std::byte>& content, std::size_t misalignment) : buffer_(content.size(), misalignment) {
    std::copy(content.begin(), content.end(), buffer_.data());
  }
  [[nodiscard]] void* data() override { return buffer_.data(); }
  [[nodiscard]] std::vector<std::byte> content() override { return buffer_.copy(); }
  [[nodiscard]] std::string damage() override { return buffer_.damage(); }

 private:
  GuardedBuffer buffer_;
};

#if defined(RTOPK_TEST_CUDA)
void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(const std::vector<std::byte>& content, std::size_t misalignment)
      : begin_(kGuardBytes + misalignment), bytes_(content.size()) {
    std::vector<std::byte> all(begin_ + bytes_ + kGuardBytes, kGuard);
    std::copy(content.begin(), content.end(), all.begin() + static_cast<std::ptrdiff_t>(begin_));
    require(cudaMalloc(&data_, all.size()), "cudaMalloc");
    require(cudaMemcpy(data_, all.data(), all.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~CudaMemory() override { static_cast<void>(cudaFree(data_)); }

  [[nodiscard]] void* data() override { return static_cast<std::byte*>(data_) + begin_; }
  [[nodiscard]] std::vector<std::byte> content() override { return download(begin_, bytes_); }
  [[nodiscard]] std::string damage() override {
    const std::vector<std::byte> all = download(0, begin_ + bytes_ + kGuardBytes);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((i < begin_ || i >= begin_ + bytes_) && all[i] != kGuard) {
        return "byte " + std::to_string(static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(begin_)) + " of " +
               std::to_string(bytes_) + " was written";
      }
    }
    return "";
  }

 private:
  static constexpr std::size_t kGuardBytes = 512;  // bytes that a warp loads or stores at once
  static constexpr std::byte kGuard{0xc3};

  [[nodiscard]] std::vector<std::byte> download(std::size_t begin, std::size_t bytes) const {
    std::vector<std::byte> copy(bytes);
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (bytes == 0) return copy;
    require(cudaMemcpy(copy.data(), static_cast<std::byte*>(data_) + begin, bytes, cudaMemcpyDeviceToHost),
            "cudaMemcpy");
    return copy;
  }

  void* data_ = nullptr;
  std::size_t begin_;
  std::size_t bytes_;
};
#endif

}  // namespace

bool is_here(rtopk::DeviceKind kind) {
  if (kind == rtopk::DeviceKind::cpu) return true;
#if defined(RTOPK_TEST_CUDA)
  int count = 0;
  const bool found = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  static_cast<void>(cudaGetLastError());
  return found;
#else
  return false;
#endif
}

std::unique_ptr<DeviceMemory> DeviceMemory::make(rtopk::DeviceKind kind, const std::vector<std::byte>& content,
                                                 std::size_t misalignment) {
#if defined(RTOPK_TEST_CUDA)
  if (kind == rtopk::DeviceKind::cuda) return std::make_unique<CudaMemory>(content, misalignment);
#endif
  if (kind != rtopk::DeviceKind::cpu) throw std::runtime_error("this build has no CUDA");
  return std::make_unique<HostMemory>(content, misalignment);
}

}  // namespace rtopk_test
