// Reads .npz files (zip files of .npy arrays) that are in memory or mapped into it. Depends on the standard library
// alone, and like the .npy reader never trusts its bytes: anything unexpected ends in an NpyError with one line of
// text.
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

/// The arrays of the file whose names (without ".npy") are in `wanted`. They must be stored, not compressed, as
/// numpy.savez stores them. No two entries may overlap, so that reading all arrays reads no byte twice. This function
/// does not check checksums, since that means reading everything.
[[nodiscard]] NpzArrays parse_npz(std::span<const std::byte> file, std::span<const std::string_view> wanted);

}  // namespace rtopk::tool
