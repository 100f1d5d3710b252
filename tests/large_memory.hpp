// Zeros on the CPU or on GPU 0, too many to be made elsewhere and copied: for offsets beyond 32 bits.
#pragma once

#include <cstdint>
#include <memory>

#include <rtopk/types.hpp>

#include "encoding.hpp"

namespace rtopk_test {

/// On the CPU memory is taken only where it is written.
class LargeMemory {
 public:
  /// Null where there is not so much.
  static std::unique_ptr<LargeMemory> zeros(rtopk::DeviceKind kind, std::int64_t bytes);
  virtual ~LargeMemory() = default;
  LargeMemory(const LargeMemory&) = delete;
  LargeMemory& operator=(const LargeMemory&) = delete;

  [[nodiscard]] virtual void* data() = 0;
  virtual void write(std::int64_t offset, const Bytes& bytes) = 0;
  /// When all work that was queued is done.
  [[nodiscard]] virtual Bytes read(std::int64_t offset, std::int64_t bytes) = 0;

 protected:
  LargeMemory() = default;
};

}  // namespace rtopk_test
