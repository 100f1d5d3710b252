// Alignment of the caller's workspace.
#pragma once

#include <cstdint>

namespace rtopk::cuda {

/// The first multiple of 256 bytes. A workspace may have any alignment; its size leaves room for this.
[[nodiscard]] inline char* aligned_base(void* workspace) noexcept {
  return reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(workspace) + 255) / 256 * 256);
}

}  // namespace rtopk::cuda
