// The GPU as this program uses it: memory, streams and events, each freed by its owner. The one place that knows the
// CUDA runtime; a build without CUDA has the same functions, all of which throw.
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

/// What the calling thread does from now on, it does on this GPU.
void use(int ordinal);

[[nodiscard]] std::uint64_t free_memory();

[[nodiscard]] OwnedBytes device_bytes(std::size_t bytes);
/// Host memory that the GPU copies from and to while the CPU does something else.
[[nodiscard]] OwnedBytes pinned_bytes(std::size_t bytes);

/// Work for the GPU, done in the order in which it was queued. Functions queue and return, unless they say otherwise.
class Stream {
 public:
  Stream();
  ~Stream();  ///< Waits: what is queued may still use memory that is about to be freed.
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] void* handle() const noexcept { return handle_; }  ///< For Launch::stream.
  /// Between host and device, or within the device.
  void copy(void* to, const void* from, std::size_t bytes);
  void fill(void* data, int byte, std::size_t bytes);
  void wait();  ///< Until everything queued is done.

 private:
  void* handle_ = nullptr;
};

/// A moment in a stream.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Stream& stream);
  void wait();  ///< Until the stream has come to it.
  /// Both must have been waited for.
  [[nodiscard]] double seconds_since(const Event& earlier) const;

 private:
  void* handle_ = nullptr;
};

}  // namespace rtopk::tool::gpu
