// A file mapped into memory, read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <sys/stat.h>

#include "files/descriptor.hpp"

namespace rtopk::tool {

/// Tells whether two names lead to the same file.
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

  /// Throws Failure if the file's size or time of last change differs from when it was opened: what was read may then
  /// mix old and new contents. (Reading beyond the end of a file that became shorter ends the program: signals.cpp.)
  void require_unchanged() const;

  /// Says that `part` will be read soon: the system may start reading it.
  void will_need(std::span<const std::byte> part) const noexcept;
  /// Says that `part` was read: its memory may be used for something else.
  void done_with(std::span<const std::byte> part) const noexcept;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string path_;
  Descriptor file_;  // stays valid if the file is renamed or removed
  struct stat status_ {};
};

}  // namespace rtopk::tool
