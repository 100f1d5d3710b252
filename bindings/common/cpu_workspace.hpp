// Workspace of calls on the CPU.
#pragma once

#include <cstddef>
#include <memory>

#include <rtopk/execution.hpp>

namespace rtopk::bindings {

/// Workspace for one CPU call. Every thread keeps a small buffer, because small calls need a few kilobytes each time
/// and malloc may take as long as the call. A thread may have only one CpuWorkspace at a time.
class CpuWorkspace {
 public:
  explicit CpuWorkspace(std::size_t bytes) : bytes_(bytes) {
    struct Kept {
      std::unique_ptr<std::byte[]> memory;
      std::size_t bytes = 0;
    };
    static thread_local Kept kept;
    if (bytes > kMaxKeptBytes) {
      own_.reset(new std::byte[bytes]);
      memory_ = own_.get();
      return;
    }
    if (kept.bytes < bytes) {
      kept.bytes = 0;
      kept.memory.reset(new std::byte[bytes]);
      kept.bytes = bytes;
    }
    memory_ = kept.memory.get();
  }

  Workspace get() const { return {memory_, bytes_}; }

 private:
  static constexpr std::size_t kMaxKeptBytes = std::size_t{1} << 18;

  std::size_t bytes_;
  std::unique_ptr<std::byte[]> own_;
  std::byte* memory_ = nullptr;
};

}  // namespace rtopk::bindings
