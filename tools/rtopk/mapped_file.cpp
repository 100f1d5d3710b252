#include "mapped_file.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.hpp"

namespace rtopk::tool {
namespace {

/// Advice is given by pages: those that `part` touches, or only those that lie within it.
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

MappedFile::MappedFile(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must end in a message, not in waiting for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail("cannot read '{}': {}", path, std::strerror(errno));
  struct stat status {};
  const int stat_result = ::fstat(descriptor, &status);
  const int stat_error = errno;
  const bool regular = stat_result == 0 && S_ISREG(status.st_mode);
  void* address = nullptr;
  int map_error = 0;
  if (regular && status.st_size > 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    map_error = errno;
  }
  ::close(descriptor);  // the mapping stays
  if (stat_result != 0) fail("cannot read '{}': {}", path, std::strerror(stat_error));
  if (S_ISDIR(status.st_mode)) fail("cannot read '{}': it is a directory", path);
  if (!regular) fail("cannot read '{}': it is not a regular file, so it cannot be mapped into memory", path);
  if (address == MAP_FAILED) fail("cannot map '{}' into memory: {}", path, std::strerror(map_error));
  data_ = static_cast<const std::byte*>(address);
  identity_ = {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::will_need(std::span<const std::byte> part) const noexcept { advise(part, MADV_WILLNEED, false); }

void MappedFile::done_with(std::span<const std::byte> part) const noexcept { advise(part, MADV_DONTNEED, true); }

}  // namespace rtopk::tool
