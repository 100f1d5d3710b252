#include "files/mapped_file.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "terminal/failure.hpp"

namespace rtopk::tool {
namespace {

/// Gives advice about whole pages: all that `part` touches, or only those that lie within it.
void advise(std::span<const std::byte> part, int advice, bool whole_pages_only) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t into_page = reinterpret_cast<std::uintptr_t>(part.data()) % page;
  const std::byte* begin = part.data() - into_page;
  const std::byte* end = part.data() + part.size();
  if (whole_pages_only) {
    if (into_page != 0) begin += page;
    end -= reinterpret_cast<std::uintptr_t>(end) % page;
  }
  if (begin >= end) return;
  ::madvise(const_cast<std::byte*>(begin), static_cast<std::size_t>(end - begin), advice);  // a hint: it may fail
}

}  // namespace

MappedFile::MappedFile(const std::string& path)
    // O_NONBLOCK: opening a named pipe must end in a message, not in waiting for a writer.
    : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!file_.is_open() || ::fstat(file_.get(), &status_) != 0) {
    fail("cannot read '{}': {}", path, std::strerror(errno));
  }
  if (S_ISDIR(status_.st_mode)) fail("cannot read '{}': it is a directory", path);
  if (!S_ISREG(status_.st_mode)) {
    fail("cannot read '{}': it is not a regular file, so it cannot be mapped into memory", path);
  }
  if (status_.st_size == 0) return;
  const auto size = static_cast<std::size_t>(status_.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file_.get(), 0);
  if (address == MAP_FAILED) fail("cannot map '{}' into memory: {}", path, std::strerror(errno));
  data_ = static_cast<const std::byte*>(address);
  size_ = size;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

FileIdentity MappedFile::identity() const noexcept {
  return {static_cast<std::uint64_t>(status_.st_dev), static_cast<std::uint64_t>(status_.st_ino)};
}

void MappedFile::require_unchanged() const {
  struct stat now {};
  if (::fstat(file_.get(), &now) != 0) fail("cannot read '{}': {}", path_, std::strerror(errno));
  const bool same_time = now.st_mtim.tv_sec == status_.st_mtim.tv_sec && now.st_mtim.tv_nsec == status_.st_mtim.tv_nsec;
  if (now.st_size == status_.st_size && same_time) return;
  fail("'{}' was changed while it was read{}; the results are discarded", path_,
       now.st_size == status_.st_size ? std::string()
                                      : fmt::format(" (from {} bytes to {})", status_.st_size, now.st_size));
}

void MappedFile::will_need(std::span<const std::byte> part) const noexcept { advise(part, MADV_WILLNEED, false); }

void MappedFile::done_with(std::span<const std::byte> part) const noexcept { advise(part, MADV_DONTNEED, true); }

}  // namespace rtopk::tool
