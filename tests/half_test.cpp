// Conversions of <rtopk/half.hpp>, compared with the definition of the formats in double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <rtopk/half.hpp>

#include "oracle.hpp"
#include "random.hpp"

namespace rtopk_test {
namespace {

using rtopk::DType;

float to_float(DType dtype, std::uint16_t bits) {
  return dtype == DType::f16 ? rtopk::float_from_f16(bits) : rtopk::float_from_bf16(bits);
}
std::uint16_t from_float(DType dtype, float value) {
  return dtype == DType::f16 ? rtopk::f16_from_float(value) : rtopk::bf16_from_float(value);
}

/// The nearest value by definition: divides by the spacing of the format at this magnitude and rounds. std::nearbyint
/// rounds ties to even, and division by a power of two is exact.
double nearest(DType dtype, float value) {
  const int fraction_bits = dtype == DType::f16 ? 10 : 7;
  const int least_exponent = dtype == DType::f16 ? -14 : -126;
  const double overflow = dtype == DType::f16 ? 65536.0 : 0x1p128;
  if (value == 0.0f || !std::isfinite(value)) return static_cast<double>(value);
  const int exponent = std::max(std::ilogb(value), least_exponent);
  const double spacing = std::ldexp(1.0, exponent - fraction_bits);
  const double rounded = std::nearbyint(static_cast<double>(value) / spacing) * spacing;
  return std::abs(rounded) >= overflow ? std::copysign(std::numeric_limits<double>::infinity(), rounded) : rounded;
}

void expect_nearest(DType dtype, float value) {
  const double back = static_cast<double>(to_float(dtype, from_float(dtype, value)));
  if (std::isnan(value)) {
    EXPECT_TRUE(std::isnan(back)) << std::hexfloat << value;
    EXPECT_EQ(std::signbit(back), std::signbit(value));
    return;
  }
  const double expected = nearest(dtype, value);
  EXPECT_EQ(back, expected) << rtopk::name(dtype) << " of " << std::hexfloat << value;
  EXPECT_EQ(std::signbit(back), std::signbit(expected)) << std::hexfloat << value;
}

class Half : public testing::TestWithParam<DType> {};

TEST_P(Half, EveryValueBecomesTheRightFloatAndComesBack) {
  for (unsigned i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = to_float(GetParam(), bits);
    const double expected = decode(GetParam(), &bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << i;
      EXPECT_TRUE(std::isnan(to_float(GetParam(), from_float(GetParam(), value)))) << i;
      continue;
    }
    EXPECT_EQ(static_cast<double>(value), expected) << i;
    EXPECT_EQ(std::signbit(value), i >= 0x8000u) << i;
    EXPECT_EQ(from_float(GetParam(), value), bits) << i;
  }
}

TEST_P(Half, BetweenTwoValuesTheNearestAndOnATieTheEven) {
  // Every midpoint between neighbours is a float. The midpoints and the floats next to them are the hard cases.
  const std::uint16_t last = GetParam() == DType::f16 ? 0x7bff : 0x7f7f;
  for (std::uint16_t bits = 0; bits < last; ++bits) {
    const auto above = static_cast<std::uint16_t>(bits + 1);
    const float middle = 0.5f * to_float(GetParam(), bits) + 0.5f * to_float(GetParam(), above);
    for (const float sign : {1.0f, -1.0f}) {
      expect_nearest(GetParam(), sign * middle);
      expect_nearest(GetParam(), sign * std::nextafter(middle, std::numeric_limits<float>::infinity()));
      expect_nearest(GetParam(), sign * std::nextafter(middle, 0.0f));
    }
  }
}

TEST_P(Half, LimitsOfTheFormat) {
  using Limits = std::numeric_limits<float>;
  for (const float value : {0.0f, Limits::denorm_min(), Limits::min(), Limits::max(), Limits::infinity(), 65504.0f,
                            65519.99f, 65520.0f, 65536.0f, 0x1p-24f, 0x1p-25f, 0x1.000002p-25f, 0x1p-26f, 0x1.fep127f,
                            0x1.fefffep127f, 0x1.ffp127f, Limits::quiet_NaN()}) {
    expect_nearest(GetParam(), value);
    expect_nearest(GetParam(), -value);
  }
  // The payload bits that remain are zero: the NaN must not become an infinity.
  EXPECT_TRUE(std::isnan(to_float(GetParam(), from_float(GetParam(), std::bit_cast<float>(0x7f800001u)))));
}

TEST_P(Half, RandomFloats) {
  Random random(seed());
  for (int i = 0; i < 500000; ++i) {
    expect_nearest(GetParam(), std::bit_cast<float>(static_cast<std::uint32_t>(random.bits())));
    // Random bits are rarely in the range of f16.
    expect_nearest(GetParam(),
                   static_cast<float>(std::ldexp(random.normal(), static_cast<int>(random.between(-28, 16)))));
  }
}

TEST(Half, IsConstexpr) {
  static_assert(rtopk::float_from_f16(0x3c00) == 1.0f);
  static_assert(rtopk::f16_from_float(-2.0f) == 0xc000);
  static_assert(rtopk::float_from_bf16(0x3f80) == 1.0f);
  static_assert(rtopk::bf16_from_float(-2.0f) == 0xc000);
}

INSTANTIATE_TEST_SUITE_P(Formats, Half, testing::Values(DType::f16, DType::bf16),
                         [](const auto& parameter) { return std::string(rtopk::name(parameter.param)); });

}  // namespace
}  // namespace rtopk_test
