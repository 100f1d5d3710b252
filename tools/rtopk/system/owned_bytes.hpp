// Memory of any kind with its owner: from the heap, pinned for a GPU, or on a GPU.
#pragma once

#include <cstddef>
#include <memory>

namespace rtopk::tool {

using OwnedBytes = std::unique_ptr<std::byte, void (*)(std::byte*) noexcept>;

/// Where memory comes from. Throws if there is none.
using Allocate = OwnedBytes (*)(std::size_t bytes);

[[nodiscard]] inline OwnedBytes heap_bytes(std::size_t bytes) {
  return {new std::byte[bytes](), [](std::byte* data) noexcept { delete[] data; }};
}

}  // namespace rtopk::tool
