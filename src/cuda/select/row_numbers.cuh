// What the arrays of a call have for one row, loaded long before it is needed.
#pragma once

#include <cstdint>

#include "core/rows.hpp"
#include "cuda/select/arguments.hpp"
#include "cuda/select/row_rules.hpp"

namespace rtopk::cuda {

/// A number of an array. A narrow one is widened where it is used: to widen it at once would wait for it.
struct LoadedNumber {
  std::int32_t low = 0;
  std::int32_t high = 0;

  __device__ void load(const void* array, ArrayType type, std::int64_t i) {
    if (type == ArrayType::i32) {
      low = static_cast<const std::int32_t*>(array)[i];
    } else {
      const std::int64_t wide = static_cast<const std::int64_t*>(array)[i];
      low = static_cast<std::int32_t>(wide);
      high = static_cast<std::int32_t>(wide >> 32);
    }
  }
  [[nodiscard]] __device__ std::int64_t value(ArrayType type) const {
    const std::int32_t upper = type == ArrayType::i32 ? low >> 31 : high;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(static_cast<std::uint32_t>(upper)) << 32 |
                                     static_cast<std::uint32_t>(low));
  }
};

struct RowNumbers {
  LoadedNumber first;   ///< The row's offset, or its start.
  LoadedNumber second;  ///< The next offset, or its length.
  LoadedNumber k;

  __device__ void load(const RowRules& rules, std::int64_t row) {
    const Ragged& ragged = rules.ragged;
    if (core::exists(ragged.offsets)) {
      first.load(rules.arrays.offsets, ragged.offsets, row);
      second.load(rules.arrays.offsets, ragged.offsets, row + 1);
    } else {
      if (core::exists(ragged.starts)) first.load(rules.arrays.starts, ragged.starts, row);
      if (core::exists(ragged.lengths)) second.load(rules.arrays.lengths, ragged.lengths, row);
    }
    if (core::exists(ragged.k)) k.load(rules.arrays.k, ragged.k, row);
  }

  /// As core::row_shape reads it from the arrays: here, from arrays of this row alone.
  [[nodiscard]] __device__ core::RowShape shape(const SelectArguments& args, const RowRules& rules) const {
    const Ragged& ragged = rules.ragged;
    const bool is_flat = core::exists(ragged.offsets);
    const std::int64_t numbers[] = {first.value(is_flat ? ragged.offsets : ragged.starts),
                                    second.value(is_flat ? ragged.offsets : ragged.lengths)};
    const std::int64_t own_k = k.value(ragged.k);
    const auto widened = [](ArrayType type) { return core::exists(type) ? ArrayType::i64 : ArrayType::none; };
    const Ragged own{widened(ragged.lengths), widened(ragged.starts), widened(ragged.offsets), widened(ragged.k),
                     ragged.elements};
    RowArrays arrays{};
    arrays.lengths = &numbers[1];
    arrays.starts = &numbers[0];
    arrays.offsets = numbers;
    arrays.k = &own_k;
    return core::row_shape(own, arrays, args.cols, args.k, 0);
  }
};

/// The number of a row's first element in the input.
[[nodiscard]] __device__ inline std::int64_t first_element(const SelectArguments& args, const RowRules& rules,
                                                           std::int64_t row, std::int64_t start) {
  return (core::exists(rules.ragged.offsets) ? 0 : row * args.stride) + start;
}

/// Elements of the input, all of which may be read.
[[nodiscard]] RTOPK_HD inline std::int64_t input_elements(const SelectArguments& args, const RowRules& rules) {
  return core::exists(rules.ragged.offsets) ? rules.ragged.elements : (args.rows - 1) * args.stride + args.cols;
}

}  // namespace rtopk::cuda
