// How many bytes a GPU reads for the rows of a matrix: it reads whole sectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace rtopk::tool {

inline constexpr std::int64_t sector_bytes = 32;

/// Rows in memory, in bytes. The first begins `offset` behind an aligned address; they do not overlap.
struct RowPlaces {
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;  ///< At least 1.
  std::int64_t stride = 0;     ///< From one row to the next, at least row_bytes.
  std::int64_t offset = 0;
};

/// The distinct sectors that the rows touch. Those that two or more rows share are counted once.
[[nodiscard]] constexpr std::int64_t touched_sectors(const RowPlaces& places) noexcept {
  if (places.rows == 0) return 0;
  const auto first_of = [&](std::int64_t row) { return (places.offset + row * places.stride) / sector_bytes; };
  const auto last_of = [&](std::int64_t row) {
    return (places.offset + row * places.stride + places.row_bytes - 1) / sector_bytes;
  };
  std::int64_t sectors = last_of(0) - first_of(0) + 1;
  // How many a row adds to those of the row before repeats after as many rows as take whole sectors.
  const std::int64_t period = sector_bytes / std::gcd(places.stride, sector_bytes);
  for (std::int64_t row = 1; row <= std::min(period, places.rows - 1); ++row) {
    const std::int64_t added = last_of(row) - std::max(first_of(row), last_of(row - 1) + 1) + 1;
    const std::int64_t rows_like_it = (places.rows - 1 - row) / period + 1;
    sectors += added * rows_like_it;
  }
  return sectors;
}

}  // namespace rtopk::tool
