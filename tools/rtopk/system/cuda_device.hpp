// GPU memory, streams and events, each freed by its owner. Only cuda_device.cpp calls the CUDA runtime; in a build
// without CUDA these functions throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "system/owned_bytes.hpp"

namespace rtopk::tool::gpu {

struct Info {
  std::string name;
  std::uint64_t memory_bytes = 0;
  std::uint64_t l2_bytes = 0;
};

// Everything here throws Failure with the runtime's own text if the GPU reports an error.

[[nodiscard]] Info info(int ordinal);

/// Makes this GPU the current one of the calling thread.
void use(int ordinal);

[[nodiscard]] std::uint64_t free_memory();

[[nodiscard]] OwnedBytes device_bytes(std::size_t bytes);
/// Pinned host memory, which the GPU copies from and to while the CPU does other work.
[[nodiscard]] OwnedBytes pinned_bytes(std::size_t bytes);

/// Work for the GPU, done in the order in which it was queued. Functions queue work and return at once, except wait().
class Stream {
 public:
  Stream();
  ~Stream();  ///< Waits, because queued work may use memory that is freed next.
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] void* handle() const noexcept { return handle_; }  ///< For Launch::stream.
  /// Between host and device, or within the device.
  void copy(void* to, const void* from, std::size_t bytes);
  void fill(void* data, int byte, std::size_t bytes);
  void wait();  ///< Returns when all queued work is done.

 private:
  void* handle_ = nullptr;
};

/// A point in a stream.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Stream& stream);
  void wait();  ///< Returns when the stream has reached it.
  /// wait() must have returned for both.
  [[nodiscard]] double seconds_since(const Event& earlier) const;

 private:
  void* handle_ = nullptr;
};

}  // namespace rtopk::tool::gpu
