#include "files/target_file.hpp"

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "terminal/failure.hpp"

namespace rtopk::tool {
namespace {

constexpr int max_links = 40;  // as many as Linux follows
constexpr mode_t any_write_bit = S_IWUSR | S_IWGRP | S_IWOTH;

[[noreturn]] void fail_writing(const std::string& shown, const char* why) { fail("cannot write '{}': {}", shown, why); }

/// Opens a folder to make, rename and find files in it.
Descriptor open_folder(int from, const std::string& path) {
  Descriptor folder(::openat(from, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
#if defined(O_PATH)
  // A folder that may be written to but not listed.
  if (!folder.is_open() && errno == EACCES) {
    return Descriptor(::openat(from, path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
#endif
  return folder;
}

/// Where the link `name` points to; empty if it is not a link or does not exist.
std::optional<std::string> link_text(int folder, const std::string& name) {
  std::array<char, PATH_MAX> text{};
  const ssize_t size = ::readlinkat(folder, name.c_str(), text.data(), text.size());
  if (size < 0) return std::nullopt;
  return std::string(text.data(), static_cast<std::size_t>(size));
}

/// Whether the link belongs to another user and lies in a sticky folder that all may write to: it may be there to make
/// us write elsewhere. Linux refuses to follow such links (fs.protected_symlinks), but here links are read and not
/// followed.
bool is_a_trap(int folder, const std::string& name) {
  struct stat around {};
  struct stat link {};
  if (::fstat(folder, &around) != 0 || ::fstatat(folder, name.c_str(), &link, AT_SYMLINK_NOFOLLOW) != 0) return false;
  const bool shared = (around.st_mode & S_ISVTX) != 0 && (around.st_mode & S_IWOTH) != 0;
  return shared && link.st_uid != ::geteuid() && link.st_uid != around.st_uid;
}

}  // namespace

TargetFile::TargetFile(std::string path, std::optional<FileIdentity> input) : shown_(std::move(path)), input_(input) {
  if (shown_.empty()) fail("cannot write the output: its name is empty");
  std::string rest = shown_;
  for (int links = 0; links <= max_links; ++links) {
    const std::size_t slash = rest.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : rest.substr(0, slash + 1);
    name_ = slash == std::string::npos ? rest : rest.substr(slash + 1);
    if (name_.empty()) name_.push_back('.');
    Descriptor opened = open_folder(folder_.is_open() ? folder_.get() : AT_FDCWD, folder);
    if (!opened.is_open()) fail_writing(shown_, std::strerror(errno));
    folder_ = std::move(opened);
    const std::optional<std::string> linked = link_text(folder_.get(), name_);
    if (!linked) return;
    if (is_a_trap(folder_.get(), name_)) fail_writing(shown_, "it is another user's link in a folder that is shared");
    rest = *linked;
  }
  fail_writing(shown_, std::strerror(ELOOP));
}

std::optional<FileAttributes> TargetFile::replaced() const {
  struct stat status {};
  if (::fstatat(folder(), name(), &status, 0) != 0) {
    if (errno == ENOENT) return std::nullopt;
    fail_writing(shown_, std::strerror(errno));  // for example, the name is too long
  }
  if (S_ISDIR(status.st_mode)) fail_writing(shown_, "it is a directory");
  if (!S_ISREG(status.st_mode)) fail_writing(shown_, "it is not a regular file");
  const FileIdentity existing{static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
  if (input_ == existing) fail_writing(shown_, "it is the input file");
  const bool writable = (status.st_mode & any_write_bit) != 0 && ::faccessat(folder(), name(), W_OK, AT_EACCESS) == 0;
  if (!writable) fail_writing(shown_, "it is read-only (chmod u+w, or another name)");
  return FileAttributes{
      .mode = status.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO), .owner = status.st_uid, .group = status.st_gid};
}

}  // namespace rtopk::tool
