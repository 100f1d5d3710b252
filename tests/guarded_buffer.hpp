// Memory with a guard on both sides. Writes past its ends are detected. Reads past its ends get bytes that change the
// result; AddressSanitizer stops them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rtopk_test {

class GuardedBuffer {
 public:
  /// `data()` is `misalignment` bytes past a multiple of 64. The guards repeat `guard`, in phase with data().
  GuardedBuffer(std::size_t bytes, std::size_t misalignment, std::vector<std::byte> guard = {std::byte{0xc3}});
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  [[nodiscard]] std::byte* data() { return storage_.data() + begin_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] std::span<std::byte> bytes() { return {data(), bytes_}; }

  void fill(std::byte value);
  /// Everything between the guards too.
  void fill_like_guards();
  [[nodiscard]] std::vector<std::byte> copy() const;

  /// The guard byte that was overwritten, relative to data(); empty if none.
  [[nodiscard]] std::string damage() const;

 private:
  [[nodiscard]] const std::byte* guard_before() const { return guard_.data() + guard_.size() - begin_; }
  [[nodiscard]] const std::byte* guard_behind() const { return guard_.data() + bytes_ % period_; }
  [[nodiscard]] std::size_t bytes_behind() const { return storage_.size() - begin_ - bytes_; }
  void set_access(bool allowed) const;

  std::vector<std::byte> storage_;
  std::vector<std::byte> guard_;  ///< The repeated bytes, whole periods of them.
  std::size_t period_;
  std::size_t begin_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace rtopk_test
