#include "output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.hpp"
#include "signals.hpp"

namespace rtopk::tool {
namespace {

/// The file behind `path`: if the target is a link, the file that it points to is replaced, not the link.
std::string resolved(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string result(real);
  std::free(real);
  return result;
}

}  // namespace

OutputFile::OutputFile(const std::string& target, std::optional<FileIdentity> input)
    : shown_(target), target_(resolved(target)) {
  if (target.empty()) fail("cannot write the output: its name is empty");
  struct stat status {};
  if (::stat(target_.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) fail("cannot write '{}': it is a directory", shown_);
    if (!S_ISREG(status.st_mode)) fail("cannot write '{}': it is not a regular file", shown_);
    const FileIdentity existing{static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
    if (input == existing) fail("cannot write '{}': it is the input file", shown_);
  }
  // Next to the target, because only within one file system does a rename replace a file at once.
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  temporary_ = fmt::format("{}.{}-{:x}.tmp", target_, ::getpid(), now);
  if (temporary_.size() >= PATH_MAX) fail("cannot write '{}': the name is too long", shown_);
  remove_on_signal(temporary_.c_str());  // before it exists, so that there is no moment when it could be left behind
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    const int error = errno;
    remove_on_signal(nullptr);
    fail("cannot write '{}': {}", shown_, std::strerror(error));
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
    remove_on_signal(nullptr);
  }
}

void OutputFile::fail_writing(int error) const { fail("cannot write '{}': {}", shown_, std::strerror(error)); }

void OutputFile::reserve(std::uint64_t bytes) {
#if defined(__linux__)
  // Not posix_fallocate: where the file system cannot reserve, that one writes all the bytes instead.
  if (bytes == 0 || ::fallocate(descriptor_, 0, 0, static_cast<off_t>(bytes)) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) {
    const int error = errno;
    fail("cannot write '{}': {} ({} bytes are needed)", shown_, std::strerror(error), bytes);
  }
#else
  static_cast<void>(bytes);
#endif
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t piece = std::min<std::size_t>(bytes.size(), std::size_t{1} << 30);  // the system's limit is 2 GiB
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), piece, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_writing(written < 0 ? errno : EIO);
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::write_at(std::uint64_t offset, const std::string& bytes) {
  write_at(offset, std::as_bytes(std::span<const char>(bytes.data(), bytes.size())));
}

void OutputFile::commit() {
  // A disk may turn out to be full only now; a file that is renamed first could appear with a hole.
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP) fail_writing(errno);
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail_writing(errno);
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail_writing(errno);
  temporary_.clear();
  remove_on_signal(nullptr);
}

}  // namespace rtopk::tool
