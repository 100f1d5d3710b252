// Reads .npz files (zip files of .npy arrays) that are in memory or mapped into it. Depends on the standard library
// alone, and like the .npy reader never trusts its bytes: anything odd ends in an NpyError with one line of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "files/npy.hpp"

namespace rtopk::tool {

struct NpzArray {
  NpyHeader header;
  std::span<const std::byte> data;   ///< header.data_bytes bytes, within the bytes that were given.
  std::span<const std::byte> entry;  ///< The whole .npy entry, of which `crc` is the checksum.
  std::uint32_t crc = 0;
};

using NpzArrays = std::map<std::string, NpzArray>;

/// Those of the arrays `wanted` (names without ".npy") that the file has. They must be stored, not compressed:
/// numpy.savez does that. Of other entries nothing is read but where they are; no two entries may share a byte, so that
/// reading all of them takes no longer than reading the file. Checksums are not computed here, since that means reading
/// everything.
[[nodiscard]] NpzArrays parse_npz(std::span<const std::byte> file, std::span<const std::string_view> wanted);

}  // namespace rtopk::tool
