// The CRC-32 of zip files (polynomial 0xEDB88320, reflected), computed piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rtopk::tool {

/// Continues `crc` (0 at the start) with `bytes`.
[[nodiscard]] std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;

}  // namespace rtopk::tool
