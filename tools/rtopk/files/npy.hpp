// NumPy's .npy format: the header, read and written. Depends on the standard library alone.
//
// Reading never trusts its bytes: anything that is not a well-formed header ends in an NpyError with one line of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rtopk::tool {

class NpyError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct NpyHeader {
  std::string descr;  ///< The element type as NumPy writes it, e.g. "<f4".
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  ///< Every extent >= 0; empty for a scalar.

  char byte_order = '|';         ///< From descr: '<' little, '>' big, '|' not applicable, '=' native.
  char kind = '?';               ///< From descr: 'f', 'i', 'u', 'b', 'V', 'U', ...
  std::uint64_t item_bytes = 0;  ///< Bytes of one element; 0 if descr has an unknown form.

  std::uint64_t elements = 0;    ///< Product of the extents.
  std::uint64_t data_bytes = 0;  ///< elements * item_bytes; fits in 63 bits.
  std::size_t data_offset = 0;   ///< Where the elements begin; not beyond the end of the file.
};

/// Reads the header at the start of `file` (versions 1, 2 and 3). Throws NpyError.
[[nodiscard]] NpyHeader parse_npy_header(std::span<const std::byte> file);

/// The elements that follow the header. Throws NpyError if the file ends before they do.
[[nodiscard]] std::span<const std::byte> npy_data(const NpyHeader& header, std::span<const std::byte> file);

/// A whole header for C-order data, a multiple of 64 bytes long.
[[nodiscard]] std::string format_npy_header(std::string_view descr, std::span<const std::int64_t> shape);

}  // namespace rtopk::tool
