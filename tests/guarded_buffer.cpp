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
    : storage_(bytes + 2 * kGuardBytes + 2 * kAlignment), period_(guard.size()), bytes_(bytes) {
  // As long as both guards together, so that each of them is a part of it, wherever it begins.
  while (guard_.size() < storage_.size() - bytes_ + period_) guard_.insert(guard_.end(), guard.begin(), guard.end());
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuardBytes;
  begin_ = kGuardBytes + (kAlignment - address % kAlignment) % kAlignment + misalignment % kAlignment;
  std::memcpy(storage_.data(), guard_before(), begin_);
  std::memcpy(storage_.data() + begin_ + bytes_, guard_behind(), bytes_behind());
  set_access(false);
}

GuardedBuffer::~GuardedBuffer() { set_access(true); }

void GuardedBuffer::fill(std::byte value) {
  if (bytes_ > 0) std::memset(data(), std::to_integer<int>(value), bytes_);
}

void GuardedBuffer::fill_like_guards() {
  const std::size_t step = guard_.size();
  for (std::size_t at = 0; at < bytes_; at += step) {
    std::memcpy(data() + at, guard_.data(), std::min(step, bytes_ - at));
  }
}

std::vector<std::byte> GuardedBuffer::copy() const {
  const auto from = storage_.begin() + static_cast<std::ptrdiff_t>(begin_);
  return {from, from + static_cast<std::ptrdiff_t>(bytes_)};
}

std::string GuardedBuffer::damage() const {
  set_access(true);
  // memcmp first: sanitizers look at every byte of a loop.
  const auto written = [this](std::size_t from, std::size_t count, const std::byte* guard) {
    const std::byte* there = storage_.data() + from;
    if (std::memcmp(there, guard, count) == 0) return from + count;
    return from + static_cast<std::size_t>(std::mismatch(there, there + count, guard).first - there);
  };
  std::size_t at = written(0, begin_, guard_before());
  if (at == begin_) at = written(begin_ + bytes_, bytes_behind(), guard_behind());
  set_access(false);
  if (at == storage_.size()) return "";
  return "byte " + std::to_string(static_cast<std::ptrdiff_t>(at) - static_cast<std::ptrdiff_t>(begin_)) + " of " +
         std::to_string(bytes_) + " was written";
}

void GuardedBuffer::set_access([[maybe_unused]] bool allowed) const {
#if defined(RTOPK_TEST_ASAN)
  const std::byte* end = storage_.data() + begin_ + bytes_;
  if (allowed) {
    __asan_unpoison_memory_region(storage_.data(), storage_.size());
  } else {
    __asan_poison_memory_region(storage_.data(), begin_);
    __asan_poison_memory_region(end, bytes_behind());
  }
#endif
}

}  // namespace rtopk_test
