// This file is compiled without fused multiply-add and uses only operations that IEEE 754 fixes to the last bit (+ - *
// / and sqrt), with its own logarithm, exponential, sine and cosine: the C library's differ between machines.
#include "matrix/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <rtopk/half.hpp>

#include "matrix/split_mix.hpp"

namespace rtopk::tool {
namespace {

constexpr double ln2 = 0.693147180559945309417;
constexpr double pi = 3.141592653589793238463;

std::uint64_t bits_at(std::uint64_t key, std::uint64_t index) { return scramble(key + (index + 1) * SplitMix::step); }

/// In [0, 1), with 53 random bits.
double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

/// ln x for a positive normal x, to about 1e-14: x = m * 2^e with m near 1, and ln m = 2 artanh((m - 1) / (m + 1)).
double logarithm(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023);
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);  // in [1, 2)
  const bool large = m > 1.4142135623730951;
  m = large ? 0.5 * m : m;
  exponent = large ? exponent + 1.0 : exponent;
  const double s = (m - 1.0) / (m + 1.0);  // |s| <= 0.172
  const double q = s * s;
  double sum = 1.0 / 17.0;
  sum = sum * q + 1.0 / 15.0;
  sum = sum * q + 1.0 / 13.0;
  sum = sum * q + 1.0 / 11.0;
  sum = sum * q + 1.0 / 9.0;
  sum = sum * q + 1.0 / 7.0;
  sum = sum * q + 1.0 / 5.0;
  sum = sum * q + 1.0 / 3.0;
  sum = sum * q + 1.0;
  return exponent * ln2 + 2.0 * s * sum;
}

/// exp x for |x| < 700: 2^n * exp(r), |r| <= ln2 / 2, by Taylor.
double exponential(double x) {
  const double scaled = x * (1.0 / ln2);
  const auto n = static_cast<std::int64_t>(scaled + (scaled < 0 ? -0.5 : 0.5));  // to the nearest
  const double r = x - static_cast<double>(n) * ln2;
  double sum = 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 1.0 / 2.0;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  return sum * std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

/// The inverse of the distribution function of Student's t with two degrees of freedom, at a number in (0, 1).
double student(std::uint64_t bits) {
  const double u = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  return (2.0 * u - 1.0) / std::sqrt(2.0 * u * (1.0 - u));
}

struct Normals {
  double even;
  double odd;
};

/// Two independent normal numbers from two words (Box and Muller's transform).
Normals normal_pair(std::uint64_t radius_bits, std::uint64_t angle_bits) {
  const double radius = std::sqrt(-2.0 * logarithm(1.0 - unit(radius_bits)));  // the argument is in (0, 1]
  // The angle is a number of quarter turns, from two bits, and a rest in [-pi/4, pi/4), where Taylor's series is short.
  const double a = (unit(angle_bits << 2) - 0.5) * (0.5 * pi);
  const double q = a * a;
  double sine = -1.0 / 1307674368000.0;
  sine = sine * q + 1.0 / 6227020800.0;
  sine = sine * q - 1.0 / 39916800.0;
  sine = sine * q + 1.0 / 362880.0;
  sine = sine * q - 1.0 / 5040.0;
  sine = sine * q + 1.0 / 120.0;
  sine = sine * q - 1.0 / 6.0;
  sine = sine * q + 1.0;
  sine = sine * a;
  double cosine = 1.0 / 20922789888000.0;
  cosine = cosine * q - 1.0 / 87178291200.0;
  cosine = cosine * q + 1.0 / 479001600.0;
  cosine = cosine * q - 1.0 / 3628800.0;
  cosine = cosine * q + 1.0 / 40320.0;
  cosine = cosine * q - 1.0 / 720.0;
  cosine = cosine * q + 1.0 / 24.0;
  cosine = cosine * q - 1.0 / 2.0;
  cosine = cosine * q + 1.0;
  const std::uint64_t quarter = angle_bits >> 62;
  const bool swap = (quarter & 1u) != 0;
  const double x = (quarter == 1 || quarter == 2) ? -radius : radius;
  const double y = quarter >= 2 ? -radius : radius;
  return {x * (swap ? sine : cosine), y * (swap ? cosine : sine)};
}

template <DType dtype>
void store(double value, bool scale_integers, void* out, std::int64_t i) {
  if constexpr (dtype == DType::f32) {
    static_cast<float*>(out)[i] = static_cast<float>(value);
  } else if constexpr (dtype == DType::f64) {
    static_cast<double*>(out)[i] = value;
  } else if constexpr (dtype == DType::f16) {
    static_cast<std::uint16_t*>(out)[i] = f16_from_float(static_cast<float>(value));
  } else if constexpr (dtype == DType::bf16) {
    static_cast<std::uint16_t*>(out)[i] = bf16_from_float(static_cast<float>(value));
  } else {
    static_assert(dtype == DType::i32);
    const double scaled = scale_integers ? value * 0x1p20 : value;
    static_cast<std::int32_t*>(out)[i] = static_cast<std::int32_t>(std::clamp(scaled, -0x1p31, 0x1p31 - 1.0));
  }
}

template <DType dtype>
void fill(const RandomSpec& spec, std::int64_t first, std::int64_t count, void* out) {
  const std::uint64_t key = scramble(spec.seed ^ 0x5bf0363546294ce7u);
  const auto word = [&](std::int64_t index) { return bits_at(key, static_cast<std::uint64_t>(index)); };
  switch (spec.distribution) {
    case Distribution::normal:
    case Distribution::lognormal:
    case Distribution::quantized: {
      const auto put = [&](double value, std::int64_t i) {
        if (spec.distribution == Distribution::lognormal) value = exponential(value);
        if (spec.distribution == Distribution::quantized) value = std::floor(value * 16.0 + 0.5) / 16.0;
        store<dtype>(value, true, out, i);
      };
      // Elements 2j and 2j + 1 come from words 2j and 2j + 1 together; a range may begin or end within a pair.
      const auto pair_at = [&](std::int64_t even) { return normal_pair(word(even), word(even + 1)); };
      std::int64_t i = 0;
      if (first % 2 != 0 && count > 0) put(pair_at(first - 1).odd, i++);
      for (; i + 1 < count; i += 2) {
        const Normals pair = pair_at(first + i);
        put(pair.even, i);
        put(pair.odd, i + 1);
      }
      if (i < count) put(pair_at(first + i).even, i);
      break;
    }
    case Distribution::uniform:
      for (std::int64_t i = 0; i < count; ++i) store<dtype>(unit(word(first + i)), true, out, i);
      break;
    case Distribution::student:
      for (std::int64_t i = 0; i < count; ++i) store<dtype>(student(word(first + i)), true, out, i);
      break;
    case Distribution::ties:
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint64_t bits = word(first + i);
        const auto number = static_cast<double>(static_cast<int>(bits >> 60) - 8);
        const bool negative_zero = number == 0.0 && (bits & 1u) != 0;
        store<dtype>(negative_zero ? -0.0 : number, false, out, i);
      }
      break;
    case Distribution::constant:
      for (std::int64_t i = 0; i < count; ++i) store<dtype>(1.0, false, out, i);
      break;
  }
}

}  // namespace

const char* name(Distribution distribution) noexcept {
  switch (distribution) {
    case Distribution::normal: return "normal";
    case Distribution::uniform: return "uniform";
    case Distribution::lognormal: return "lognormal";
    case Distribution::student: return "student";
    case Distribution::quantized: return "quantized";
    case Distribution::ties: return "ties";
    case Distribution::constant: return "constant";
  }
  return "?";
}

void fill_random(const RandomSpec& spec, std::int64_t first, std::int64_t count, void* out) noexcept {
  switch (spec.dtype) {
    case DType::f32: return fill<DType::f32>(spec, first, count, out);
    case DType::f16: return fill<DType::f16>(spec, first, count, out);
    case DType::bf16: return fill<DType::bf16>(spec, first, count, out);
    case DType::f64: return fill<DType::f64>(spec, first, count, out);
    case DType::i32: return fill<DType::i32>(spec, first, count, out);
  }
}

}  // namespace rtopk::tool
