// The numbers of the zip format that .npz files need: entries stored without compression, ZIP64 for large ones.
#pragma once

#include <cstdint>
#include <string>

namespace rtopk::tool::zip {

inline constexpr std::uint32_t local_signature = 0x04034b50;
inline constexpr std::uint32_t central_signature = 0x02014b50;
inline constexpr std::uint32_t end_signature = 0x06054b50;
inline constexpr std::uint32_t end64_signature = 0x06064b50;
inline constexpr std::uint32_t locator64_signature = 0x07064b50;

inline constexpr std::size_t local_bytes = 30;    // without name and extra fields
inline constexpr std::size_t central_bytes = 46;  // without name, extra fields and comment
inline constexpr std::size_t end_bytes = 22;      // without comment
inline constexpr std::size_t end64_bytes = 56;
inline constexpr std::size_t locator64_bytes = 20;
inline constexpr std::size_t local_crc_at = 14;

inline constexpr std::uint16_t method_stored = 0;
inline constexpr std::uint16_t flag_encrypted = 1;
inline constexpr std::uint16_t extra_zip64 = 0x0001;
inline constexpr std::uint16_t extra_padding = 0xd935;  // the identifier that alignment tools use for padding

inline constexpr std::uint32_t in_zip64_32 = 0xffffffff;  // "the ZIP64 record has the number"
inline constexpr std::uint16_t in_zip64_16 = 0xffff;

/// Appends the low `bytes` bytes of `value`, least significant first.
inline void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace rtopk::tool::zip
