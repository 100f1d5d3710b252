// A file mapped into memory, read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rtopk::tool {

/// Which file, whatever its name.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  ///< Throws Failure.
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  [[nodiscard]] FileIdentity identity() const noexcept { return identity_; }

  /// Says that `part` will be read soon: the system may start reading it.
  void will_need(std::span<const std::byte> part) const noexcept;
  /// Says that `part` was read: its memory may be used for something else.
  void done_with(std::span<const std::byte> part) const noexcept;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  FileIdentity identity_{};
};

}  // namespace rtopk::tool
