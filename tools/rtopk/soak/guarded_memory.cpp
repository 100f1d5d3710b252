#include "soak/guarded_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "rounding.hpp"

namespace rtopk::tool {
namespace {

constexpr std::size_t alignment = 256;  // that of cudaMalloc; the host's memory has the same here
constexpr std::size_t guard = 4 * alignment;
constexpr std::byte untouched{0xa5};  // not a valid float, index or mask in the results either

std::byte* aligned(std::byte* data) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return data + (round_up(address, alignment) - address);
}

}  // namespace

GuardedMemory::GuardedMemory(std::size_t bytes, std::size_t offset, gpu::Stream* stream)
    : size_(bytes), offset_(offset), stream_(stream), host_(heap_bytes(bytes + offset + 2 * guard + alignment)) {
  std::memset(aligned(host_.get()), static_cast<int>(untouched), all());
  if (stream_ != nullptr) device_.emplace(gpu::device_bytes(all()));
}

std::byte* GuardedMemory::begin(std::byte* base) const noexcept { return aligned(base) + guard + offset_; }

std::size_t GuardedMemory::all() const noexcept { return guard + offset_ + size_ + guard; }

void GuardedMemory::upload() {
  if (device_) stream_->copy(device_->get(), aligned(host_.get()), all());
}

void GuardedMemory::download() {
  if (!device_) return;
  stream_->copy(aligned(host_.get()), device_->get(), all());
  stream_->wait();
}

bool GuardedMemory::guards_are_intact() const noexcept {
  const std::byte* const first = aligned(host_.get());
  const auto intact = [](const std::byte* from, const std::byte* to) {
    return std::all_of(from, to, [](std::byte byte) { return byte == untouched; });
  };
  return intact(first, first + guard + offset_) && intact(first + guard + offset_ + size_, first + all());
}

}  // namespace rtopk::tool
