// Where the rows of a problem begin and end, how many elements of each are selected, and what their indices are written
// as. Everything that the arrays of a call can say is brought into range here, and only here.
#pragma once

#include <algorithm>
#include <cstdint>

#include <rtopk/select.hpp>

#include "core/attributes.hpp"
#include "core/keys.hpp"

namespace rtopk::core {

[[nodiscard]] RTOPK_HD constexpr bool exists(ArrayType type) noexcept { return type != ArrayType::none; }

/// True if rows are not simply those of the matrix.
[[nodiscard]] constexpr bool is_ragged(const Problem& problem) noexcept { return problem.ragged != Ragged{}; }

/// True if the input is flat, and rows are segments of it.
[[nodiscard]] constexpr bool is_flat(const Problem& problem) noexcept { return exists(problem.ragged.offsets); }

/// True if a problem uses any of the options that only kernels for general rows have.
[[nodiscard]] constexpr bool is_general(const Problem& problem) noexcept {
  return is_ragged(problem) || problem.magnitude || problem.thresholds || problem.index_map != IndexMap{};
}

[[nodiscard]] RTOPK_HD inline std::int64_t number_at(const void* array, ArrayType type, std::int64_t i) noexcept {
  if (type == ArrayType::i32) return static_cast<const std::int32_t*>(array)[i];
  return static_cast<const std::int64_t*>(array)[i];
}

[[nodiscard]] RTOPK_HD constexpr std::int64_t clamped(std::int64_t x, std::int64_t least, std::int64_t most) noexcept {
  return x < least ? least : x > most ? most : x;
}

/// A row of a problem.
struct RowShape {
  std::int64_t start;   ///< Its first element: counted from the row of the matrix, or from the flat input.
  std::int64_t length;  ///< 0 to Problem::cols.
  std::int64_t k;       ///< Its number of results: 0 to `length` and to Problem::k.
  bool is_short;        ///< It has fewer elements than are asked for, or none is.
};

/// `cols` and `k`: of the problem.
[[nodiscard]] RTOPK_HD inline RowShape row_shape(const Ragged& ragged, const RowArrays& arrays, std::int64_t cols,
                                                 std::int64_t k, std::int64_t row) noexcept {
  RowShape shape{0, cols, k, false};
  if (exists(ragged.offsets)) {
    shape.start = clamped(number_at(arrays.offsets, ragged.offsets, row), 0, ragged.elements);
    const std::int64_t end = clamped(number_at(arrays.offsets, ragged.offsets, row + 1), shape.start, ragged.elements);
    shape.length = end - shape.start < cols ? end - shape.start : cols;
  } else {
    if (exists(ragged.starts)) shape.start = clamped(number_at(arrays.starts, ragged.starts, row), 0, cols);
    shape.length = cols - shape.start;
    if (exists(ragged.lengths)) {
      shape.length = clamped(number_at(arrays.lengths, ragged.lengths, row), 0, shape.length);
    }
  }
  if (exists(ragged.k)) shape.k = clamped(number_at(arrays.k, ragged.k, row), 0, k);
  shape.is_short = shape.k == 0 || shape.length < shape.k;
  shape.k = shape.length < shape.k ? shape.length : shape.k;
  return shape;
}

/// Sums and products of any two numbers: those of the arrays may be too large for 64 bits, and then wrap around.
[[nodiscard]] RTOPK_HD constexpr std::int64_t wrapped_sum(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
[[nodiscard]] RTOPK_HD constexpr std::int64_t wrapped_product(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

/// What is written as the indices of one row's elements.
struct RowMap {
  const void* entries;  ///< The row's first id, or its page table.
  std::int64_t pages;   ///< Of that table; 0 if there is no such table.
  std::int64_t page_size;
  std::int64_t shift;
  ArrayType type;
  IndexKind kind;

  [[nodiscard]] static RTOPK_HD RowMap of(const IndexMap& map, const RowArrays& arrays, bool is_flat,
                                          std::int64_t row) noexcept {
    RowMap own{arrays.map, map.pages, map.page_size, 0, map.type, map.kind};
    std::int64_t first = 0;
    if (map.kind == IndexKind::ids && !is_flat) first = row * map.stride;
    if (map.kind == IndexKind::shifted) own.shift = number_at(arrays.map, map.type, row);
    if (map.kind == IndexKind::pages) {
      const std::int64_t table = exists(map.table_of) ? number_at(arrays.table_of, map.table_of, row) : row;
      const bool has_table = table >= 0 && table < map.tables;
      if (!has_table) own.pages = 0;
      first = has_table ? table * map.stride : 0;
    }
    own.entries = static_cast<const char*>(arrays.map) + first * entry_bytes(map.type);
    return own;
  }

  /// The index of the element at `place` of the row, which begins at `start`.
  [[nodiscard]] RTOPK_HD std::int64_t index(std::int64_t start, std::int64_t place) const noexcept {
    switch (kind) {
      case IndexKind::column: break;
      case IndexKind::ids: return number_at(entries, type, start + place);
      case IndexKind::shifted: return wrapped_sum(shift, place);
      case IndexKind::pages: {
        // Divisions of 32 bits are much faster on a GPU.
        const bool is_small = ((place | page_size) >> 32) == 0;
        const std::int64_t page =
            is_small ? static_cast<std::uint32_t>(place) / static_cast<std::uint32_t>(page_size) : place / page_size;
        if (page >= pages) return -1;
        const std::int64_t entry = number_at(entries, type, page);
        if (entry < 0) return -1;
        return wrapped_sum(wrapped_product(entry, page_size), place - page * page_size);
      }
    }
    return start + place;
  }

  [[nodiscard]] static RTOPK_HD constexpr int entry_bytes(ArrayType entries) noexcept {
    return entries == ArrayType::i64 ? 8 : 4;
  }
};

/// The map with its defaults filled in.
[[nodiscard]] constexpr IndexMap whole_map(const Problem& problem) noexcept {
  IndexMap map = problem.index_map;
  if (map.stride == 0) map.stride = map.kind == IndexKind::pages ? map.pages : problem.cols;
  if (map.tables == 0) map.tables = problem.rows;
  return map;
}

/// The quiet NaN without a payload.
template <class T>
inline constexpr KeyOf<T> quiet_nan_bits = [] {
  if constexpr (is_floating<T>) {
    constexpr std::uint64_t infinity = ElementTraits<T>::infinity_bits;
    constexpr std::uint64_t lowest = infinity & (~infinity + 1);  // bit of the exponent
    return static_cast<KeyOf<T>>(infinity | lowest >> 1);
  } else {
    return KeyOf<T>{};
  }
}();

/// The bits of the value that loses against every element.
template <class T>
[[nodiscard]] RTOPK_HD constexpr KeyOf<T> losing_bits(bool smallest, bool magnitude) noexcept {
  using Limits = std::numeric_limits<std::int32_t>;
  if constexpr (is_floating<T>) {
    if (smallest) return quiet_nan_bits<T>;
    return magnitude ? KeyOf<T>{} : bits_of(value_of<T>(0));
  } else {
    if (magnitude) return smallest ? bits_of(T{Limits::min()}) : KeyOf<T>{};
    return bits_of(T{smallest ? Limits::max() : Limits::min()});
  }
}

}  // namespace rtopk::core
