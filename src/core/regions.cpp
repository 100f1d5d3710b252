// Checks of the memory regions of a call.
#include "core/regions.hpp"

#include "core/checks.hpp"
#include "core/sizes.hpp"

namespace rtopk::core {

bool Regions::overlap(const Region& a, const Region& b) {
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.data);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.data);
  // Compare differences: the end of a region may not be a valid address.
  return a_begin <= b_begin ? b_begin - a_begin < a.bytes : a_begin - b_begin < b.bytes;
}

void Regions::add(const char* argument, const void* data, std::int64_t count, std::size_t size, bool written) {
  if (count == 0) return;
  regions_[used_++] = {argument, data, bytes_of(count, size), size, written};
}

Status Regions::check(Workspace workspace, std::size_t needed) noexcept {
  for (std::size_t i = 0; i < used_; ++i) {
    const Region& r = regions_[i];
    if (r.data == nullptr) {
      return status(StatusCode::invalid_argument, "%s is null; accepted: a pointer to %zu bytes", r.argument, r.bytes);
    }
    if (reinterpret_cast<std::uintptr_t>(r.data) % r.alignment != 0) {
      return status(StatusCode::invalid_argument, "%s is %p; accepted: an address that is a multiple of %zu",
                    r.argument, r.data, r.alignment);
    }
  }
  if (needed > 0) {
    if (workspace.data == nullptr) {
      return status(StatusCode::workspace_too_small, "workspace.data is null; accepted: a pointer to %zu bytes",
                    needed);
    }
    if (workspace.bytes < needed) {
      return status(StatusCode::workspace_too_small, "workspace.bytes is %zu; accepted: at least %zu", workspace.bytes,
                    needed);
    }
    regions_[used_++] = {"workspace", workspace.data, needed, 1, true};
  }
  for (std::size_t i = 0; i < used_; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool matters = regions_[i].written || regions_[j].written;
      if (matters && overlap(regions_[i], regions_[j])) {
        return status(StatusCode::invalid_argument, "%s overlaps %s; accepted: separate memory", regions_[i].argument,
                      regions_[j].argument);
      }
    }
  }
  return {};
}

}  // namespace rtopk::core
