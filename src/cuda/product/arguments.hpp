// Kernel arguments of a product of compact rows.
#pragma once

#include <cstdint>

namespace rtopk::cuda {

struct ProductArguments {
  const float* values = nullptr;
  const void* selectors = nullptr;
  const float* matrix = nullptr;
  const float* gradient = nullptr;
  float* result = nullptr;
  float* partial_sums = nullptr;  ///< matrix_gradient: cols x width for every part; null if there is only one.

  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int32_t cols = 0;
  std::int32_t k = 0;
  std::int32_t tiles = 1;       ///< Columns of W are taken tile by tile.
  std::int32_t ranges = 1;      ///< matrix_gradient: rows of W are taken range by range.
  std::int32_t parts = 1;       ///< Blocks that share the rows.
  std::int32_t chunk_rows = 0;  ///< matrix_gradient: rows that a block has in shared memory.
  bool wide = false;            ///< 16-bit selectors.
  bool matrix_quads = false;    ///< Four columns can be accessed at once: of W,
  bool row_quads = false;       ///< of Y or dY,
  bool sum_quads = false;       ///< of the sums that a matrix_gradient writes.

  [[nodiscard]] constexpr std::int32_t selector_at(std::int64_t element) const {
    return wide ? static_cast<const std::uint16_t*>(selectors)[element]
                : static_cast<const std::uint8_t*>(selectors)[element];
  }
};

}  // namespace rtopk::cuda
