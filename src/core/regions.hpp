// The pieces of memory that a call touches, and whether they are there, aligned and apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/rtopk.hpp>
#include <rtopk/types.hpp>

namespace rtopk::core {

class Regions {
 public:
  /// `count` elements of `size` bytes. Nothing is asked of a region without elements.
  void read(const char* argument, const void* data, std::int64_t count, std::size_t size) {
    add(argument, data, count, size, false);
  }
  void write(const char* argument, const void* data, std::int64_t count, std::size_t size) {
    add(argument, data, count, size, true);
  }

  /// What is wrong with them and with a workspace of which `needed` bytes are used. Regions that are written overlap nothing.
  [[nodiscard]] Status check(Workspace workspace, std::size_t needed) noexcept;

 private:
  struct Region {
    const char* argument;
    const void* data;
    std::size_t bytes;
    std::size_t alignment;
    bool written;
  };
  static bool overlap(const Region& a, const Region& b);
  void add(const char* argument, const void* data, std::int64_t count, std::size_t size, bool written);

  static constexpr std::size_t kMax = 12;
  Region regions_[kMax];
  std::size_t used_ = 0;
};

}  // namespace rtopk::core
