// Keys of elements (core/keys.hpp) and the way back. Internals: they need no more than their header.
#include "core/keys.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace rtopk_test {
namespace {

using rtopk::core::bits_of;
using rtopk::core::is_of_one_value;
using rtopk::core::key_of;
using rtopk::core::value_of;

/// Of all elements of a type of 16 bits.
template <class T>
void expect_values_of_keys() {
  std::map<std::uint16_t, std::vector<std::uint16_t>> of_key;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto one = static_cast<std::uint16_t>(bits);
    of_key[key_of(T{one})].push_back(one);
  }
  for (const auto& [key, elements] : of_key) {
    EXPECT_EQ(is_of_one_value<T>(key), elements.size() == 1) << key;
    if (elements.size() == 1) {
      EXPECT_EQ(bits_of(value_of<T>(key)), elements.front()) << key;
    }
  }
}

TEST(Keys, TellTheBitsOfAnElementUnlessOthersShareThem) {
  expect_values_of_keys<rtopk::core::F16>();
  expect_values_of_keys<rtopk::core::BF16>();
}

template <class T, class... Bits>
void expect_of_one_value(Bits... bits) {
  for (const rtopk::core::KeyOf<T> one : {static_cast<rtopk::core::KeyOf<T>>(bits)...}) {
    const auto key = key_of(std::bit_cast<T>(one));
    EXPECT_TRUE(is_of_one_value<T>(key)) << one;
    EXPECT_EQ(bits_of(value_of<T>(key)), one);
  }
}
template <class T, class... Bits>
void expect_shared(Bits... bits) {
  for (const rtopk::core::KeyOf<T> one : {static_cast<rtopk::core::KeyOf<T>>(bits)...}) {
    EXPECT_FALSE(is_of_one_value<T>(key_of(std::bit_cast<T>(one)))) << one;
  }
}

TEST(Keys, AtTheEndsOfTheTypes) {
  // The least denormals, the greatest finite numbers, infinities; zeros and NaN.
  expect_of_one_value<float>(1u, 0x80000001u, 0x3f800000u, 0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0xff800000u);
  expect_shared<float>(0u, 0x80000000u, 0x7f800001u, 0xff800001u, 0x7fc00000u, 0xffffffffu);
  expect_of_one_value<double>(1u, 0x8000000000000001u, 0x7fefffffffffffffu, 0xffefffffffffffffu, 0x7ff0000000000000u,
                              0xfff0000000000000u);
  expect_shared<double>(0u, 0x8000000000000000u, 0x7ff0000000000001u, 0xffffffffffffffffu);
  expect_of_one_value<std::int32_t>(0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu);
}

}  // namespace
}  // namespace rtopk_test
