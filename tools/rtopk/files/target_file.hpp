// Where an output goes: a name in a folder, with links followed, and what stands there already.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

#include "files/descriptor.hpp"
#include "files/mapped_file.hpp"

namespace rtopk::tool {

/// What a file that is replaced passes on.
struct FileAttributes {
  mode_t mode = 0;  ///< Permissions alone.
  uid_t owner = 0;
  gid_t group = 0;
};

class TargetFile {
 public:
  /// Follows links, also one that points to a file that is not there yet. Throws Failure.
  TargetFile(std::string path, std::optional<FileIdentity> input);

  /// The file that would be replaced, if there is one. Throws Failure if it may not be: it is the input, no regular file,
  /// or read-only (to root as well, if nobody may write to it: somebody wants to keep it).
  [[nodiscard]] std::optional<FileAttributes> replaced() const;

  [[nodiscard]] const std::string& shown() const noexcept { return shown_; }  ///< As the user named it.
  [[nodiscard]] const char* name() const noexcept { return name_.c_str(); }
  /// The folder that `name` is in, open for calls such as renameat; also if somebody moves it meanwhile.
  [[nodiscard]] int folder() const noexcept { return folder_.get(); }

 private:
  std::string shown_;
  std::string name_;
  Descriptor folder_;
  std::optional<FileIdentity> input_;
};

}  // namespace rtopk::tool
