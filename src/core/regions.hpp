// Collects the memory regions of a call and checks them for null, alignment and overlap.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/rtopk.hpp>
#include <rtopk/types.hpp>

namespace rtopk::core {

class Regions {
 public:
  /// Adds a region of `count` elements of `size` bytes, aligned to `size`. Regions without elements are not checked.
  void read(const char* argument, const void* data, std::int64_t count, std::size_t size) {
    add(argument, data, count, size, false);
  }
  void write(const char* argument, const void* data, std::int64_t count, std::size_t size) {
    add(argument, data, count, size, true);
  }

  /// The first error of the regions and of a workspace with `needed` bytes. Written regions must not overlap others.
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
