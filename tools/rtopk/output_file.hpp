// A file that appears whole or not at all: written under a temporary name next to the target, renamed at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "mapped_file.hpp"

namespace rtopk::tool {

class OutputFile {
 public:
  /// Creates the temporary file. Throws Failure, also if `target` is the file `input`.
  explicit OutputFile(const std::string& target, std::optional<FileIdentity> input = std::nullopt);
  ~OutputFile();  ///< Removes the temporary file unless commit() was reached.
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Takes the space now, so that a disk that is too small is known at the start. Only a hint where the file system
  /// cannot do it.
  void reserve(std::uint64_t bytes);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void write_at(std::uint64_t offset, const std::string& bytes);
  /// Everything is on the disk and under the target's name when it returns.
  void commit();

 private:
  [[noreturn]] void fail_writing(int error) const;

  std::string shown_;   // the target as the user named it
  std::string target_;  // with links resolved
  std::string temporary_;
  int descriptor_ = -1;
};

}  // namespace rtopk::tool
