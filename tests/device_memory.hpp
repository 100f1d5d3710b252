// Memory of the CPU or of GPU 0 with guards on both sides, for tests that run on both.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <rtopk/types.hpp>

namespace rtopk_test {

/// True if the device exists and this build supports it.
bool is_here(rtopk::DeviceKind kind);

class DeviceMemory {
 public:
  /// `data()` is `misalignment` bytes past a multiple of 64.
  static std::unique_ptr<DeviceMemory> make(rtopk::DeviceKind kind, const std::vector<std::byte>& content,
                                            std::size_t misalignment);
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] virtual void* data() = 0;
  /// Its content after all queued work is done.
  [[nodiscard]] virtual std::vector<std::byte> content() = 0;
  /// The guard byte that was overwritten, relative to data(); empty if none.
  [[nodiscard]] virtual std::string damage() = 0;

 protected:
  DeviceMemory() = default;
};

}  // namespace rtopk_test
