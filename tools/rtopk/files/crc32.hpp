// The CRC-32 of zip files, by zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <zlib.h>

namespace rtopk::tool {

/// Continues `crc` (0 at the start) with `bytes`.
[[nodiscard]] inline std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) return crc;  // its pointer may be null, for which zlib returns 0
  return static_cast<std::uint32_t>(::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace rtopk::tool
