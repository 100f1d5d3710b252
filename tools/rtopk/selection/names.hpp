// The values of every enumeration, and a search for a value by the name that the library gives it.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include <rtopk/types.hpp>

#include "matrix/random.hpp"

namespace rtopk::tool {

template <typename T>
inline constexpr auto values_of = std::array<T, 0>{};

template <>
inline constexpr auto values_of<DType> = std::to_array({DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32});
template <>
inline constexpr auto values_of<Direction> = std::to_array({Direction::largest, Direction::smallest});
template <>
inline constexpr auto values_of<Order> = std::to_array({Order::unsorted, Order::by_value, Order::by_index});
template <>
inline constexpr auto values_of<Form> = std::to_array({Form::pairs, Form::dense, Form::mask, Form::cbsr});
template <>
inline constexpr auto values_of<IndexType> = std::to_array({IndexType::i32, IndexType::i64, IndexType::u8,
                                                            IndexType::u16});
template <>
inline constexpr auto values_of<Search> = std::to_array({Search::fast, Search::bisection});
template <>
inline constexpr auto values_of<Distribution> = std::to_array({Distribution::normal, Distribution::uniform,
                                                               Distribution::lognormal, Distribution::student,
                                                               Distribution::quantized, Distribution::ties,
                                                               Distribution::constant});

template <typename T>
[[nodiscard]] std::optional<T> value_named(std::string text) {
  std::replace(text.begin(), text.end(), '-', '_');  // by-value is accepted for by_value
  for (const T value : values_of<T>) {
    if (text == name(value)) return value;
  }
  return std::nullopt;
}

/// "f32|f16|..."
template <typename T>
[[nodiscard]] std::string names_of(const char* separator) {
  std::string names;
  for (const T value : values_of<T>) names += (names.empty() ? "" : separator) + std::string(name(value));
  return names;
}

}  // namespace rtopk::tool
