// Turns the fuzzer's bytes into numbers; zeros after the last byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace rtopk_test {

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  template <typename T>
  T take() {
    T value{};
    const std::size_t size = sizeof value < rest_.size() ? sizeof value : rest_.size();
    if (size > 0) std::memcpy(&value, rest_.data(), size);
    rest_ = rest_.subspan(size);
    return value;
  }
  /// In [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(take<std::uint16_t>() % static_cast<std::uint64_t>(high - low + 1));
  }
  [[nodiscard]] std::span<const std::uint8_t> rest() const { return rest_; }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace rtopk_test
