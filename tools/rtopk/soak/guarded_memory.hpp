// Device memory with guards on both sides, for `rtopk soak`: a write beyond its ends is detected.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "system/cuda_device.hpp"
#include "system/owned_bytes.hpp"

namespace rtopk::tool {

class GuardedMemory {
 public:
  /// `bytes` bytes of host memory, `offset` bytes after an aligned address; with a stream, the same on its GPU.
  GuardedMemory(std::size_t bytes, std::size_t offset, gpu::Stream* stream);

  /// The bytes in host memory.
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {begin(host_.get()), size_}; }
  /// Their address on the device.
  [[nodiscard]] std::byte* on_device() noexcept { return begin(device_ ? device_->get() : host_.get()); }

  void upload();    ///< Copies bytes and guards to the GPU.
  void download();  ///< Copies them back.
  [[nodiscard]] bool guards_are_intact() const noexcept;

 private:
  [[nodiscard]] std::byte* begin(std::byte* base) const noexcept;
  [[nodiscard]] std::size_t all() const noexcept;

  std::size_t size_;
  std::size_t offset_;
  gpu::Stream* stream_;
  OwnedBytes host_;
  std::optional<OwnedBytes> device_;
};

}  // namespace rtopk::tool
