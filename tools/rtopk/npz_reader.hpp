// Reads .npz files (zip files of .npy arrays) that are in memory or mapped into it. Depends on the standard library
// alone, and like the .npy reader never trusts its bytes: anything odd ends in an NpyError with one line of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "npy.hpp"

namespace rtopk::tool {

struct NpzArray {
  NpyHeader header;
  std::span<const std::byte> data;   ///< header.data_bytes bytes, within the bytes that were given.
  std::span<const std::byte> entry;  ///< The whole .npy entry, of which `crc` is the checksum.
  std::uint32_t crc = 0;
};

/// Every array by its name (without ".npy"). Entries must be stored, not compressed: numpy.savez does that. Checksums
/// are not computed here, since that means reading everything.
[[nodiscard]] std::map<std::string, NpzArray> parse_npz(std::span<const std::byte> file);

}  // namespace rtopk::tool
