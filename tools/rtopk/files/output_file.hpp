// A file that appears whole or not at all. It is written without a name where the system can do that, so that nothing is
// left of it however the program ends; elsewhere under a temporary name next to the target.
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
  /// Creates the file, still out of sight. Throws Failure, also if `target` is the file `input`.
  explicit OutputFile(const std::string& target, std::optional<FileIdentity> input = std::nullopt);
  ~OutputFile();  ///< Nothing is left unless commit() was reached.
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Takes the space now, so that a disk that is too small is known at the start. Only a hint where the file system
  /// cannot do it.
  void reserve(std::uint64_t bytes);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void write_at(std::uint64_t offset, const std::string& bytes);
  /// Everything is on the disk and under the target's name when it returns. A file that is replaced passes on its mode,
  /// owner and group.
  void commit();

 private:
  void take_attributes(const FileAttributes& replaced);
  [[nodiscard]] bool has_no_name() const noexcept { return !unnamed_.empty(); }
  void remove_temporary() noexcept;
  [[noreturn]] void fail_writing(int error) const;

  TargetFile target_;
  Descriptor file_;
  std::string unnamed_;     // how a file without a name is called; empty: it has one
  std::string temporary_;   // its name, or the one that it has for a moment, in the target's folder
  bool left_over_ = false;  // whether there is a file of that name
};

}  // namespace rtopk::tool
