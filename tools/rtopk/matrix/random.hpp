// Random matrices that are the same on every machine: element i is a function of (seed, i) alone, so any part can be
// made at any time, in any order, on any number of threads.
#pragma once

#include <cstdint>

#include <rtopk/types.hpp>

namespace rtopk::tool {

enum class Distribution : std::uint8_t { normal, uniform, lognormal, student, quantized, ties, constant };

[[nodiscard]] const char* name(Distribution distribution) noexcept;

/// The numbers, before they are rounded to the element type:
///   normal     mean 0, deviation 1
///   uniform    in [0, 1)
///   lognormal  exp of normal
///   student    Student's t with two degrees of freedom: tails so heavy that the variance is infinite
///   quantized  normal, rounded to sixteenths
///   ties       the whole numbers -8..7, zero with either sign: most rows have many equal elements
///   constant   1
/// For i32, all but ties and constant are first multiplied by 2^20, so that they stay distinct.
struct RandomSpec {
  Distribution distribution = Distribution::normal;
  std::uint64_t seed = 0;
  DType dtype = DType::f32;
};

/// A random matrix in place of a file; its element type is the selection's.
struct RandomInput {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Distribution distribution = Distribution::normal;
  std::uint64_t seed = 0;
};

/// Writes elements [first, first + count) to `out`.
void fill_random(const RandomSpec& spec, std::int64_t first, std::int64_t count, void* out) noexcept;

}  // namespace rtopk::tool
