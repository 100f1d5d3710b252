// The values of the library's enumerations, so that a test can ask for every one of them.
#pragma once

#include <string_view>
#include <vector>

#include <rtopk/select.hpp>
#include <rtopk/types.hpp>

namespace rtopk_test {

/// From 0 up to the first number without a name.
template <typename Enum>
std::vector<Enum> enumerators() {
  std::vector<Enum> values;
  for (int i = 0; name(static_cast<Enum>(i)) != std::string_view("?"); ++i) values.push_back(static_cast<Enum>(i));
  return values;
}

}  // namespace rtopk_test
