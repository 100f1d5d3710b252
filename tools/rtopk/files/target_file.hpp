// The place of an output file: a folder and a name in it, after links were followed, and the file that is already
// there.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

#include "files/descriptor.hpp"
#include "files/mapped_file.hpp"

namespace rtopk::tool {

/// What an output takes over from the file that it replaces.
struct FileAttributes {
  mode_t mode = 0;  ///< The permission bits.
  uid_t owner = 0;
  gid_t group = 0;
};

class TargetFile {
 public:
  /// Follows links, also one to a file that does not exist yet. Throws Failure.
  TargetFile(std::string path, std::optional<FileIdentity> input);

  /// The file that would be replaced, if there is one. Throws Failure if it must not be: if it is the input, not a
  /// regular file, or read-only. A file that nobody may write to is read-only for root too.
  [[nodiscard]] std::optional<FileAttributes> replaced() const;

  [[nodiscard]] const std::string& shown() const noexcept { return shown_; }  ///< As the user named it.
  [[nodiscard]] const char* name() const noexcept { return name_.c_str(); }
  /// The folder that `name` is in, open for calls such as renameat. Stays valid if the folder is moved.
  [[nodiscard]] int folder() const noexcept { return folder_.get(); }

 private:
  std::string shown_;
  std::string name_;
  Descriptor folder_;
  std::optional<FileIdentity> input_;
};

}  // namespace rtopk::tool
