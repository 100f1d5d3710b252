// Large zero-initialised memory of the CPU or of GPU 0, for offsets beyond 32 bits.
#pragma once

#include <cstdint>
#include <memory>

#include <rtopk/types.hpp>

#include "encoding.hpp"

namespace rtopk_test {

/// On the CPU, only the pages that are written use memory.
class LargeMemory {
 public:
  /// Null if memory is short.
  static std::unique_ptr<LargeMemory> zeros(rtopk::DeviceKind kind, std::int64_t bytes);
  virtual ~LargeMemory() = default;
  LargeMemory(const LargeMemory&) = delete;
  LargeMemory& operator=(const LargeMemory&) = delete;

  [[nodiscard]] virtual void* data() = 0;
  virtual void write(std::int64_t offset, const Bytes& bytes) = 0;
  /// Reads after all queued work is done.
  [[nodiscard]] virtual Bytes read(std::int64_t offset, std::int64_t bytes) = 0;

 protected:
  LargeMemory() = default;
};

}  // namespace rtopk_test
