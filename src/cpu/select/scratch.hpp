// Lays out the scratch memory of a task. The same code computes its size and hands out its parts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sizes.hpp"

namespace rtopk::cpu {

class Scratch {
 public:
  static constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector

  /// Hands out parts of `memory`, which may have any alignment. With null it only sums up sizes.
  explicit Scratch(void* memory) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    next_ = static_cast<std::byte*>(memory);
    if (memory != nullptr) next_ += (kAlignment - address % kAlignment) % kAlignment;
  }

  /// Space for `count` elements, plus padding for whole-vector writes at the end.
  template <class T>
  T* take(std::int64_t count) {
    const std::size_t bytes = core::plus(core::bytes_of(count, sizeof(T)), kAlignment);
    const std::size_t rounded = core::round_up(bytes, kAlignment);
    bytes_ = core::plus(bytes_, rounded);
    if (next_ == nullptr) return nullptr;
    auto* const part = reinterpret_cast<T*>(next_);
    next_ += rounded;
    return part;
  }

  /// Total size, for memory of any alignment. Above core::kMaxBytes if it overflows.
  [[nodiscard]] std::size_t bytes() const { return core::plus(bytes_, kAlignment); }

 private:
  std::byte* next_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace rtopk::cpu
