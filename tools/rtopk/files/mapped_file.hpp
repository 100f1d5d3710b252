// A file mapped into memory, read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <sys/stat.h>

#include "files/descriptor.hpp"

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
  [[nodiscard]] FileIdentity identity() const noexcept;

  /// Throws Failure if the file was written to or changed its size since it was opened: what was read may then be half of
  /// one content and half of another. Told by its size and by when it was last written to, as finely as the file system
  /// keeps that. (Where the system reads beyond the end, the program ends at once: signals.cpp.)
  void require_unchanged() const;

  /// Says that `part` will be read soon: the system may start reading it.
  void will_need(std::span<const std::byte> part) const noexcept;
  /// Says that `part` was read: its memory may be used for something else.
  void done_with(std::span<const std::byte> part) const noexcept;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string path_;
  Descriptor file_;  // the file itself, whatever becomes of its name
  struct stat status_ {};
};

}  // namespace rtopk::tool
