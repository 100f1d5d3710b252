// Matrices with rows that are difficult to select from.
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

[[nodiscard]] bool is_integer(rtopk::DType dtype);

/// Content of a row. i32 has no infinities and NaN: extreme values replace them.
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

/// Contiguous rows. Whoever runs a selection chooses their layout in memory.
struct Matrix {
  rtopk::DType dtype = rtopk::DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::byte> bytes;
  std::string description;
};

/// All rows have `pattern`. The patterns put their difficulties at the kth value.
Matrix make_matrix(rtopk::DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t k, Pattern pattern,
                   Random& random);

/// Rows with different patterns, starting at a random one.
Matrix make_mixed_matrix(rtopk::DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t k, Random& random);

/// One row with these numbers, each rounded to the type.
Matrix make_row(rtopk::DType dtype, const std::vector<double>& row);

/// The bits of `value` in the type, rounded to nearest (i32: to an integer in range).
std::uint64_t encode(rtopk::DType dtype, double value);
std::uint64_t infinity_bits(rtopk::DType dtype, bool negative);
/// A random NaN: any payload, either sign, quiet or signalling. An extreme value for i32.
std::uint64_t nan_bits(rtopk::DType dtype, Random& random);
/// The bytes of an element that would win every selection in this direction: bait for reads out of bounds.
std::vector<std::byte> bait(rtopk::DType dtype, rtopk::Direction direction, bool magnitude);

}  // namespace rtopk_test
