// Sparse memory of the CPU.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace rtopk_test {

/// Zero-initialised address space. Only the pages that are written use memory.
class Mapping {
 public:
  explicit Mapping(std::size_t bytes) : bytes_(bytes) {
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
  }
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// Null if memory is short.
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace rtopk_test
