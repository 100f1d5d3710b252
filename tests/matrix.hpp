// Matrices to select from: rows that the contract makes difficult.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <rtopk/types.hpp>

#include "random.hpp"

namespace rtopk_test {

inline constexpr rtopk::DType kDTypes[] = {rtopk::DType::f32, rtopk::DType::f16, rtopk::DType::bf16, rtopk::DType::f64,
                                           rtopk::DType::i32};

/// What a row holds. For i32, which has none of them, infinities and NaN are the extreme values.
enum class Pattern {
  normal,
  uniform,
  negative,
  all_equal,
  all_equal_but_one,
  two_values,
  quantised,
  ties_at_border,
  ascending,
  descending,
  organ_pipe,
  half_zeros,
  signed_zeros,
  zeros_at_border,
  denormals,
  one_outlier,
  shared_leading_bits,
  neighbours,
  alternating_signs,
  extremes,
  own_scale,
  every_scale,
  infinities,
  infinities_at_border,
  minus_infinities,
  all_nan,
  nan_at_border,
  one_nan,
  nan_and_infinities,
  random_bits,
};
inline constexpr int kPatterns = static_cast<int>(Pattern::random_bits) + 1;

const char* name(Pattern pattern);

/// Rows without gaps; how they are laid out in memory is the business of whoever runs a selection on them.
struct Matrix {
  rtopk::DType dtype = rtopk::DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::byte> bytes;
  std::string description;
};

/// Every row by `pattern`. `k` tells the patterns where the border of the selection lies.
Matrix make_matrix(rtopk::DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t k, Pattern pattern,
                   Random& random);

/// Every row by a pattern of its own, starting at a random one.
Matrix make_mixed_matrix(rtopk::DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t k, Random& random);

/// One row of the given numbers, each rounded to the type.
Matrix make_row(rtopk::DType dtype, const std::vector<double>& row);

/// The bits of `value` in the type, rounded to the nearest (i32: to an integer in range).
std::uint64_t encode(rtopk::DType dtype, double value);
std::uint64_t infinity_bits(rtopk::DType dtype, bool negative);
/// A NaN with a payload from `random`, of either sign, quiet or signalling; an extreme value for i32.
std::uint64_t nan_bits(rtopk::DType dtype, Random& random);
/// The bytes of an element that a selection in this direction could not resist: bait for reads out of bounds.
std::vector<std::byte> bait(rtopk::DType dtype, rtopk::Direction direction);

}  // namespace rtopk_test
