// Memory with an owner that frees it: from the heap, pinned, or on a GPU.
#pragma once

#include <cstddef>
#include <memory>

namespace rtopk::tool {

using OwnedBytes = std::unique_ptr<std::byte, void (*)(std::byte*) noexcept>;

/// A function that allocates memory. Throws if there is not enough.
using Allocate = OwnedBytes (*)(std::size_t bytes);

[[nodiscard]] inline OwnedBytes heap_bytes(std::size_t bytes) {
  return {new std::byte[bytes](), [](std::byte* data) noexcept { delete[] data; }};
}

}  // namespace rtopk::tool
