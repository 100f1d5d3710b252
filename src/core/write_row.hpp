// Writes one row's selection in the form that the problem asks for.
#pragma once

#include <algorithm>
#include <cstdint>

#include <rtopk/rtopk.hpp>

#include "checks.hpp"

namespace rtopk::core {

/// An unsigned integer as wide as an element: values are moved as bits, so that NaN payloads and -0 survive.
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;

template <class Index, class Position>
void write_indices(Index* out, const Position* chosen, std::int64_t k, std::int64_t base) {
  for (std::int64_t i = 0; i < k; ++i) out[i] = static_cast<Index>(base + static_cast<std::int64_t>(chosen[i]));
}

/// Writes `count` of the k results of `row`, from place `first` on. `chosen` holds their positions relative to the column
/// `base`. Dense and mask rows must have been cleared (see clear_row).
template <class Bits, class Position>
void write_chosen(const Problem& problem, const Output& output, std::int64_t row, const Bits* elements,
                  const Position* chosen, std::int64_t first, std::int64_t count, std::int64_t base = 0) {
  const std::int64_t start = row * problem.k + first;
  if (writes_values(problem)) {
    Bits* values = static_cast<Bits*>(output.values) + start;
    for (std::int64_t i = 0; i < count; ++i) values[i] = elements[base + static_cast<std::int64_t>(chosen[i])];
  }
  if (writes_indices(problem)) {
    switch (problem.index_type) {
      case IndexType::i32: write_indices(static_cast<std::int32_t*>(output.indices) + start, chosen, count, base); break;
      case IndexType::i64: write_indices(static_cast<std::int64_t*>(output.indices) + start, chosen, count, base); break;
      case IndexType::u8: write_indices(static_cast<std::uint8_t*>(output.indices) + start, chosen, count, base); break;
      case IndexType::u16: write_indices(static_cast<std::uint16_t*>(output.indices) + start, chosen, count, base); break;
    }
  }
  if (problem.form == Form::dense) {
    Bits* dense = static_cast<Bits*>(output.dense) + row * problem.cols + base;
    for (std::int64_t i = 0; i < count; ++i) dense[chosen[i]] = elements[base + static_cast<std::int64_t>(chosen[i])];
  }
  if (problem.form == Form::mask) {
    std::uint8_t* mask = output.mask + row * problem.cols + base;
    for (std::int64_t i = 0; i < count; ++i) mask[chosen[i]] = 1;
  }
}

/// Sets a dense or mask row to zero; other forms have nothing to clear.
template <class Bits>
void clear_row(const Problem& problem, const Output& output, std::int64_t row) {
  if (problem.form == Form::dense) std::fill_n(static_cast<Bits*>(output.dense) + row * problem.cols, problem.cols, Bits{});
  if (problem.form == Form::mask) std::fill_n(output.mask + row * problem.cols, problem.cols, std::uint8_t{});
}

}  // namespace rtopk::core
