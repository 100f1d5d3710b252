// An output file that appears whole or not at all. Where the file system has files without a name, it is written as
// one, so that nothing is left of it however the program ends. Elsewhere it has a temporary name in the target's
// folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "files/descriptor.hpp"
#include "files/mapped_file.hpp"
#include "files/target_file.hpp"

namespace rtopk::tool {

class OutputFile {
 public:
  /// Creates the file, not yet under the name `target`. Throws Failure, also if `target` is the file `input`.
  explicit OutputFile(const std::string& target, std::optional<FileIdentity> input = std::nullopt);
  ~OutputFile();  ///< Removes the file unless commit() has returned.
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Reserves the space, so that a disk that is too small fails at the start. Does nothing where the file system cannot
  /// reserve.
  void reserve(std::uint64_t bytes);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void write_at(std::uint64_t offset, const std::string& bytes);
  /// Writes everything to the disk and gives the file its name. If it replaces a file, it takes over that file's mode,
  /// owner and group.
  void commit();

 private:
  void take_attributes(const FileAttributes& replaced);
  [[nodiscard]] bool has_no_name() const noexcept { return !unnamed_.empty(); }
  void remove_temporary() noexcept;
  [[noreturn]] void fail_writing(int error) const;

  TargetFile target_;
  Descriptor file_;
  std::string unnamed_;     // path under /proc of a file without a name; empty if it has one
  std::string temporary_;   // a name in the target's folder that the file has until commit() ends
  bool left_over_ = false;  // whether a file has the temporary name
};

}  // namespace rtopk::tool
