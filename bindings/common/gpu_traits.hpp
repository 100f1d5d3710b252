// The traits of GPUs, asked for once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include <rtopk/execution.hpp>

namespace rtopk::bindings {

/// Cached: querying the driver takes longer than a small selection, and the answer does not change. A failure is asked
/// again.
inline Status traits_of_gpu(std::int32_t ordinal, Traits& traits) {
  struct Known {
    std::mutex asking;
    bool known = false;
    Traits traits;
  };
  static std::array<Known, 64> all;
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= all.size()) {
    const std::string text =
        "device is cuda:" + std::to_string(ordinal) + "; accepted: cuda:0 to cuda:" + std::to_string(all.size() - 1);
    return {StatusCode::invalid_argument, text.c_str()};
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
