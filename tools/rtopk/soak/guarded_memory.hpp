// Memory of a device with guards on both sides, for `rtopk soak`: whoever writes beyond its ends is found out.
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
  /// `bytes` in host memory, `offset` bytes behind an aligned address. With a stream also as many on its GPU.
  GuardedMemory(std::size_t bytes, std::size_t offset, gpu::Stream* stream);

  /// The bytes on the host.
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {begin(host_.get()), size_}; }
  /// Where the device has them.
  [[nodiscard]] std::byte* on_device() noexcept { return begin(device_ ? device_->get() : host_.get()); }

  void upload();    ///< Host to GPU, guards too.
  void download();  ///< And back.
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
