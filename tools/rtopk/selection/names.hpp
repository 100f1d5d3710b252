// The values of every enumeration, and a search for a value by the name that the library gives it.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rtopk/select.hpp>
#include <rtopk/types.hpp>

#include "matrix/random.hpp"

namespace rtopk::tool {

/// Every value of an enumeration: from 0 up to the first number without a name.
template <typename T>
[[nodiscard]] std::vector<T> values_of() {
  std::vector<T> values;
  for (int i = 0; name(static_cast<T>(i)) != std::string_view("?"); ++i) values.push_back(static_cast<T>(i));
  return values;
}

template <typename T>
[[nodiscard]] std::optional<T> value_named(std::string text) {
  std::replace(text.begin(), text.end(), '-', '_');  // by-value is accepted for by_value
  for (const T value : values_of<T>()) {
    if (text == name(value)) return value;
  }
  return std::nullopt;
}

/// "f32|f16|..."
template <typename T>
[[nodiscard]] std::string names_of(const char* separator) {
  std::string names;
  for (const T value : values_of<T>()) names += (names.empty() ? "" : separator) + std::string(name(value));
  return names;
}

}  // namespace rtopk::tool
