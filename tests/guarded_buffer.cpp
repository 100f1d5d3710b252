// Memory between guards.
#include "guarded_buffer.hpp"

#include <algorithm>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#define RTOPK_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RTOPK_TEST_ASAN 1
#endif
#endif
#if defined(RTOPK_TEST_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace rtopk_test {
namespace {
constexpr std::size_t kGuardBytes = 256;  // more than two of the widest vectors
constexpr std::size_t kAlignment = 64;
}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t bytes, std::size_t misalignment, std::vector<std::byte> guard)
    : storage_(bytes + 2 * kGuardBytes + 2 * kAlignment), guard_(std::move(guard)), bytes_(bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuardBytes;
  begin_ = kGuardBytes + (kAlignment - address % kAlignment) % kAlignment + misalignment % kAlignment;
  for (std::size_t i = 0; i < begin_; ++i) storage_[i] = guard_at(i);
  for (std::size_t i = begin_ + bytes_; i < storage_.size(); ++i) storage_[i] = guard_at(i);
  set_access(false);
}

GuardedBuffer::~GuardedBuffer() { set_access(true); }

void GuardedBuffer::fill(std::byte value) {
  if (bytes_ > 0) std::memset(data(), std::to_integer<int>(value), bytes_);
}

std::vector<std::byte> GuardedBuffer::copy() const {
  const auto from = storage_.begin() + static_cast<std::ptrdiff_t>(begin_);
  return {from, from + static_cast<std::ptrdiff_t>(bytes_)};
}

std::string GuardedBuffer::damage() const {
  set_access(true);
  const auto written = [this](std::size_t from, std::size_t to) {
    while (from < to && storage_[from] == guard_at(from)) ++from;
    return from;
  };
  std::size_t at = written(0, begin_);
  if (at == begin_) at = written(begin_ + bytes_, storage_.size());
  set_access(false);
  if (at == storage_.size()) return "";
  return "byte " + std::to_string(static_cast<std::ptrdiff_t>(at) - static_cast<std::ptrdiff_t>(begin_)) + " of " +
         std::to_string(bytes_) + " was written";
}

std::byte GuardedBuffer::guard_at(std::size_t position) const {
  const std::size_t period = guard_.size();
  return guard_[(position + period - begin_ % period) % period];
}

void GuardedBuffer::set_access([[maybe_unused]] bool allowed) const {
#if defined(RTOPK_TEST_ASAN)
  const std::byte* end = storage_.data() + begin_ + bytes_;
  const std::size_t behind = storage_.size() - begin_ - bytes_;
  if (allowed) {
    __asan_unpoison_memory_region(storage_.data(), storage_.size());
  } else {
    __asan_poison_memory_region(storage_.data(), begin_);
    __asan_poison_memory_region(end, behind);
  }
#endif
}

}  // namespace rtopk_test
