// Changes fields of plans to limits and to random numbers, as no caller should.
#pragma once

#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>

#include "random.hpp"

namespace rtopk_test {

template <class T>
void change(T& field, Random& random) {
  if constexpr (std::is_same_v<T, bool>) {
    field = !field;
  } else if constexpr (std::is_enum_v<T>) {
    field = static_cast<T>(random.coin() ? random.between(0, 12) : random.between(0, 255));
  } else if constexpr (std::is_floating_point_v<T>) {
    constexpr T kNumbers[] = {T(0),
                              T(1e-3),
                              T(1),
                              T(2),
                              T(-1),
                              std::numeric_limits<T>::infinity(),
                              std::numeric_limits<T>::quiet_NaN(),
                              std::numeric_limits<T>::denorm_min()};
    field = random.pick(kNumbers);
  } else {
    constexpr std::int64_t kLimits[] = {0,
                                        1,
                                        2,
                                        3,
                                        32,
                                        64,
                                        -1,
                                        0x7fffffff,
                                        std::int64_t{1} << 31,
                                        std::int64_t{1} << 32,
                                        (std::int64_t{1} << 32) + 1,
                                        std::int64_t{1} << 60,
                                        (std::int64_t{1} << 60) - 1,
                                        std::int64_t{1} << 62,
                                        std::numeric_limits<std::int64_t>::max(),
                                        std::numeric_limits<std::int64_t>::min()};
    const auto now = static_cast<std::uint64_t>(field);
    switch (random.between(0, 5)) {
      case 0: field = static_cast<T>(now + 1); break;
      case 1: field = static_cast<T>(now - 1); break;
      case 2: field = static_cast<T>(now * 2); break;
      case 3: field = static_cast<T>(random.bits() >> random.between(0, 63)); break;
      default: field = static_cast<T>(random.pick(kLimits)); break;
    }
  }
}

/// Changes one or two of the fields.
template <class... Fields>
void change_some(std::tuple<Fields&...> fields, Random& random) {
  for (std::int64_t left = random.between(1, 2); left > 0; --left) {
    const std::int64_t chosen = random.between(0, static_cast<std::int64_t>(sizeof...(Fields)) - 1);
    std::apply(
        [&](Fields&... field) {
          std::int64_t i = 0;
          ((i++ == chosen ? change(field, random) : void()), ...);
        },
        fields);
  }
}

}  // namespace rtopk_test
