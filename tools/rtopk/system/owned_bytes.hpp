// Memory with an owner that frees it: from the heap, pinned, or on a GPU.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace rtopk::tool {

using OwnedBytes = std::unique_ptr<std::byte, void (*)(std::byte*) noexcept>;

/// A function that allocates memory. Throws if there is not enough.
using Allocate = OwnedBytes (*)(std::size_t bytes);

[[nodiscard]] inline OwnedBytes heap_bytes(std::size_t bytes) {
  return {new std::byte[bytes](), [](std::byte* data) noexcept { delete[] data; }};
}

/// Zeros that begin a cache line, and more: every type and every vector of a CPU is aligned there.
[[nodiscard]] inline OwnedBytes aligned_bytes(std::size_t bytes) {
  constexpr std::align_val_t alignment{128};
  auto* const data = static_cast<std::byte*>(::operator new(bytes, alignment));
  std::memset(data, 0, bytes);
  return {data, [](std::byte* owned) noexcept { ::operator delete(owned, alignment); }};
}

}  // namespace rtopk::tool
