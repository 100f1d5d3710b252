#include "files/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/signals.hpp"
#include "terminal/failure.hpp"

namespace rtopk::tool {
namespace {

constexpr mode_t new_file_mode = 0666;  // less the umask

/// A file in `folder` without a name. Not open where the file system has no such files.
Descriptor open_without_a_name([[maybe_unused]] int folder, [[maybe_unused]] mode_t mode) {
#if defined(O_TMPFILE)
  return Descriptor(::openat(folder, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, mode));
#else
  return Descriptor();
#endif
}

/// Whether the error means that this file, or its file system, does not support the call at all.
bool means_unsupported(int error) { return error == EINVAL || error == ENOTSUP || error == EBADF || error == EROFS; }

}  // namespace

OutputFile::OutputFile(const std::string& target, std::optional<FileIdentity> input) : target_(target, input) {
  const std::optional<FileAttributes> replaced = target_.replaced();
  const mode_t mode = replaced ? replaced->mode & new_file_mode : new_file_mode;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  // Not derived from the target's name, which may already have the maximum length.
  temporary_ = fmt::format(".rtopk-{}-{:x}.tmp", ::getpid(), now);
  file_ = open_without_a_name(target_.folder(), mode);
  if (file_.is_open()) {
    unnamed_ = fmt::format("/proc/self/fd/{}", file_.get());
    if (::access(unnamed_.c_str(), F_OK) == 0) return;
    unnamed_.clear();  // without /proc it cannot be given a name later
  }
  // In the target's folder, because a rename is atomic only within one file system.
  remove_on_signal(target_.folder(), temporary_.c_str());  // before the file exists, so that a signal never leaves it
  file_ = Descriptor(::openat(target_.folder(), temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  const int error = errno;
  left_over_ = file_.is_open();
  if (left_over_) return;
  remove_on_signal(-1, nullptr);
  fail_writing(error);
}

OutputFile::~OutputFile() { remove_temporary(); }

void OutputFile::remove_temporary() noexcept {
  if (left_over_) ::unlinkat(target_.folder(), temporary_.c_str(), 0);
  left_over_ = false;
  remove_on_signal(-1, nullptr);
}

void OutputFile::fail_writing(int error) const { fail("cannot write '{}': {}", target_.shown(), std::strerror(error)); }

void OutputFile::reserve(std::uint64_t bytes) {
#if defined(__linux__)
  // Not posix_fallocate, which writes all the bytes where the file system cannot reserve them.
  if (bytes == 0 || ::fallocate(file_.get(), 0, 0, static_cast<off_t>(bytes)) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) {
    const int error = errno;
    fail("cannot write '{}': {} ({} bytes are needed)", target_.shown(), std::strerror(error), bytes);
  }
#else
  static_cast<void>(bytes);
#endif
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t piece = std::min<std::size_t>(bytes.size(), std::size_t{1} << 30);  // the system's limit is 2 GiB
    const ssize_t written = ::pwrite(file_.get(), bytes.data(), piece, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_writing(written < 0 ? errno : EIO);
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::write_at(std::uint64_t offset, const std::string& bytes) {
  write_at(offset, std::as_bytes(std::span<const char>(bytes.data(), bytes.size())));
}

void OutputFile::take_attributes(const FileAttributes& replaced) {
  struct stat ours {};
  if (::fstat(file_.get(), &ours) != 0) fail_writing(errno);
  mode_t mode = replaced.mode;
  constexpr auto as_it_is = static_cast<uid_t>(-1);
  const bool same_group = ours.st_gid == replaced.group;
  if (::fchown(file_.get(), replaced.owner, replaced.group) != 0 &&
      ::fchown(file_.get(), as_it_is, replaced.group) != 0 && !same_group) {
    // The group differs from the old file's, so it gets only the rights that everybody has.
    mode &= ~static_cast<mode_t>(S_IRWXG) | (mode & S_IRWXO) << 3;
  }
  if ((ours.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO)) != mode && ::fchmod(file_.get(), mode) != 0) fail_writing(errno);
}

void OutputFile::commit() {
  const std::optional<FileAttributes> replaced = target_.replaced();
  if (replaced) take_attributes(*replaced);
  // Before the file gets its name: a full disk may show only now, and the file must not appear incomplete.
  if (::fsync(file_.get()) != 0 && !means_unsupported(errno)) fail_writing(errno);
  bool there = false;
  if (has_no_name()) {
    const auto link_as = [&](const char* name) {
      return ::linkat(AT_FDCWD, unnamed_.c_str(), target_.folder(), name, AT_SYMLINK_FOLLOW) == 0;
    };
    there = !replaced && link_as(target_.name());
    if (!there && !replaced && errno != EEXIST) fail_writing(errno);
    if (!there) {
      // A link cannot replace a file. From here to the rename a SIGKILL would leave a second name behind.
      remove_on_signal(target_.folder(), temporary_.c_str());
      if (!link_as(temporary_.c_str())) fail_writing(errno);
      left_over_ = true;
    }
  } else if (!file_.close()) {
    fail_writing(errno);
  }
  if (!there && ::renameat(target_.folder(), temporary_.c_str(), target_.folder(), target_.name()) != 0) {
    fail_writing(errno);
  }
  left_over_ = false;
  remove_on_signal(-1, nullptr);
  // The new name is an entry of the folder, which has to be written to the disk too.
  if (::fsync(target_.folder()) != 0 && !means_unsupported(errno)) {
    fail("'{}' is written, but its folder could not be synchronized to the disk: {}", target_.shown(),
         std::strerror(errno));
  }
}

}  // namespace rtopk::tool
