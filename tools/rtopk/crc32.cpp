#include "crc32.hpp"

#include <array>
#include <cstring>

namespace rtopk::tool {
namespace {

// Table t gives the effect of a byte that is followed by t more bytes, so that 16 bytes go through at once: this many
// independent look-ups keep up with a fast disk, one byte at a time would not.
constexpr std::size_t slices = 16;
using Tables = std::array<std::array<std::uint32_t, 256>, slices>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xEDB88320u : 0u);
    tables[0][byte] = crc;
  }
  for (std::size_t slice = 1; slice < slices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t previous = tables[slice - 1][byte];
      tables[slice][byte] = (previous >> 8) ^ tables[0][previous & 0xffu];
    }
  }
  return tables;
}

constexpr Tables tables = make_tables();

}  // namespace

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  crc = ~crc;
  while (bytes.size() >= slices) {
    std::array<unsigned char, slices> block;
    std::memcpy(block.data(), bytes.data(), slices);
    for (std::size_t i = 0; i < 4; ++i) block[i] = static_cast<unsigned char>(block[i] ^ (crc >> (8 * i) & 0xffu));
    crc = 0;
    for (std::size_t i = 0; i < slices; ++i) crc ^= tables[slices - 1 - i][block[i]];
    bytes = bytes.subspan(slices);
  }
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ tables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xffu];
  }
  return ~crc;
}

}  // namespace rtopk::tool
