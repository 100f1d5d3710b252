// The traits of GPUs, asked for once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>

#include <rtopk/execution.hpp>

namespace rtopk::bindings {

/// Cached: querying the driver takes longer than a small selection, and the answer does not change. A failure is asked
/// again. Allocates nothing, so that no binding has an exception to catch.
inline Status traits_of_gpu(std::int32_t ordinal, Traits& traits) {
  struct Known {
    std::mutex asking;
    bool known = false;
    Traits traits;
  };
  static std::array<Known, 64> all;
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= all.size()) {
    char text[80];
    std::snprintf(text, sizeof(text), "device is cuda:%d; accepted: cuda:0 to cuda:%zu", static_cast<int>(ordinal),
                  all.size() - 1);
    return {StatusCode::invalid_argument, text};
  }
  Known& gpu = all[static_cast<std::size_t>(ordinal)];
  const std::lock_guard lock(gpu.asking);
  if (!gpu.known) {
    if (Status status = query_traits({DeviceKind::cuda, ordinal}, gpu.traits); !status.ok()) return status;
    gpu.known = true;
  }
  traits = gpu.traits;
  return {};
}

}  // namespace rtopk::bindings
