// Maps elements to unsigned integer keys that define the order of the contract: a > b exactly if key(a) > key(b), and
// equal values have equal keys. Every NaN has the greatest key; -0 and +0 share a key. All selection code compares
// keys, so the order is defined only here.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <rtopk/half.hpp>
#include <rtopk/types.hpp>

#include "core/attributes.hpp"

namespace rtopk::core {

/// The 16-bit formats as distinct types that hold bits.
struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};

/// Properties of the element types. `Arithmetic` is the type in which the paper's bisection computes.
template <class T>
struct ElementTraits;

template <>
struct ElementTraits<float> {
  using Key = std::uint32_t;
  using Signed = std::int32_t;
  using Arithmetic = float;
  static constexpr Key infinity_bits = 0x7f800000u;
};
template <>
struct ElementTraits<double> {
  using Key = std::uint64_t;
  using Signed = std::int64_t;
  using Arithmetic = double;
  static constexpr Key infinity_bits = 0x7ff0000000000000u;
};
template <>
struct ElementTraits<F16> {
  using Key = std::uint16_t;
  using Signed = std::int16_t;
  using Arithmetic = float;
  static constexpr Key infinity_bits = 0x7c00u;
};
template <>
struct ElementTraits<BF16> {
  using Key = std::uint16_t;
  using Signed = std::int16_t;
  using Arithmetic = float;
  static constexpr Key infinity_bits = 0x7f80u;
};
template <>
struct ElementTraits<std::int32_t> {
  using Key = std::uint32_t;
  using Signed = std::int32_t;
  using Arithmetic = double;
};

template <class T>
using KeyOf = typename ElementTraits<T>::Key;
template <class T>
using ArithmeticOf = typename ElementTraits<T>::Arithmetic;

template <class T>
inline constexpr bool is_floating = !std::is_integral_v<T>;

/// The greatest key: of NaN, or INT32_MAX. The least key is 0: of -infinity, or INT32_MIN.
template <class T>
inline constexpr KeyOf<T> max_key = [] {
  if constexpr (is_floating<T>) {
    return static_cast<KeyOf<T>>(2 * ElementTraits<T>::infinity_bits + 1);
  } else {
    return std::numeric_limits<KeyOf<T>>::max();
  }
}();

/// Keys of finite values are lower_finite_key to upper_finite_key.
template <class T>
inline constexpr KeyOf<T> lower_finite_key = is_floating<T> ? 1 : 0;
template <class T>
inline constexpr KeyOf<T> upper_finite_key = is_floating<T> ? static_cast<KeyOf<T>>(max_key<T> - 2) : max_key<T>;

template <class T>
[[nodiscard]] RTOPK_HD constexpr KeyOf<T> bits_of(T value) noexcept {
  return std::bit_cast<KeyOf<T>>(value);
}

template <class T>
[[nodiscard]] RTOPK_HD constexpr KeyOf<T> key_of(T value) noexcept {
  using Key = KeyOf<T>;
  constexpr Key sign = static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1));
  const Key bits = bits_of(value);
  if constexpr (is_floating<T>) {
    // Converts sign and magnitude to two's complement and adds an offset, so that -infinity becomes 0. NaNs of either
    // sign end up above +infinity, because the negative ones wrap around.
    const Key magnitude = static_cast<Key>(bits & static_cast<Key>(~sign));
    const Key centred = (bits & sign) != 0 ? static_cast<Key>(Key{0} - magnitude) : magnitude;
    const Key key = static_cast<Key>(centred + ElementTraits<T>::infinity_bits);
    return key < max_key<T> ? key : max_key<T>;
  } else {
    return static_cast<Key>(bits ^ sign);
  }
}

/// The key of the absolute value. The least integer has the greatest one: its absolute value has no negative.
template <class T>
[[nodiscard]] RTOPK_HD constexpr KeyOf<T> magnitude_key(T value) noexcept {
  using Key = KeyOf<T>;
  constexpr Key sign = static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1));
  const Key bits = bits_of(value);
  if constexpr (is_floating<T>) {
    return key_of(std::bit_cast<T>(static_cast<Key>(bits & static_cast<Key>(~sign))));
  } else {
    return (bits & sign) != 0 ? static_cast<Key>(Key{0} - bits) : bits;
  }
}

/// The value of a key. The key of NaN gives one of the NaNs, the key of zero gives +0.
template <class T>
[[nodiscard]] RTOPK_HD constexpr T value_of(KeyOf<T> key) noexcept {
  using Key = KeyOf<T>;
  constexpr Key sign = static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1));
  if constexpr (is_floating<T>) {
    constexpr Key infinity = ElementTraits<T>::infinity_bits;
    const Key bits =
        key >= infinity ? static_cast<Key>(key - infinity) : static_cast<Key>(static_cast<Key>(infinity - key) | sign);
    return std::bit_cast<T>(bits);
  } else {
    return std::bit_cast<T>(static_cast<Key>(key ^ sign));
  }
}

/// True if one value alone has this key: both zeros share one, and all NaNs.
template <class T>
[[nodiscard]] RTOPK_HD constexpr bool is_of_one_value(KeyOf<T> key) noexcept {
  return !is_floating<T> || (key != key_of(T{}) && key != max_key<T>);
}

[[nodiscard]] RTOPK_HD constexpr float arithmetic_of(float value) noexcept { return value; }
[[nodiscard]] RTOPK_HD constexpr double arithmetic_of(double value) noexcept { return value; }
[[nodiscard]] RTOPK_HD constexpr float arithmetic_of(F16 value) noexcept { return float_from_f16(value.bits); }
[[nodiscard]] RTOPK_HD constexpr float arithmetic_of(BF16 value) noexcept { return float_from_bf16(value.bits); }
[[nodiscard]] RTOPK_HD constexpr double arithmetic_of(std::int32_t value) noexcept { return value; }

/// The least key whose value is >= `threshold`. The threshold must be finite and at most the greatest finite element.
template <class T>
[[nodiscard]] RTOPK_HD constexpr KeyOf<T> least_key_at_least(ArithmeticOf<T> threshold) noexcept {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
    T nearest{};
    if constexpr (std::is_same_v<T, F16>) {
      nearest.bits = f16_from_float(threshold);
    } else {
      nearest.bits = bf16_from_float(threshold);
    }
    const KeyOf<T> key = key_of(nearest);
    return arithmetic_of(nearest) < threshold ? static_cast<KeyOf<T>>(key + 1) : key;
  } else if constexpr (!is_floating<T>) {
    static_assert(sizeof(T) <= 4, "a double must hold every value of T and a std::int64_t every rounded threshold");
    const auto truncated = static_cast<std::int64_t>(threshold);
    const auto ceiling = static_cast<double>(truncated) < threshold ? truncated + 1 : truncated;
    return key_of(static_cast<T>(ceiling));
  } else {
    return key_of(threshold);
  }
}

// Directed keys put the best element at the greatest key: the same order for `largest`, reversed for `smallest`.

template <class T, Direction direction>
[[nodiscard]] RTOPK_HD constexpr KeyOf<T> directed(KeyOf<T> key) noexcept {
  return direction == Direction::largest ? key : static_cast<KeyOf<T>>(max_key<T> - key);
}

template <class T, Direction direction>
[[nodiscard]] RTOPK_HD constexpr KeyOf<T> directed_key(T value) noexcept {
  return directed<T, direction>(key_of(value));
}

/// The value that the paper's algorithms compare: negated for `smallest`, so that they always search for the largest.
template <class T, Direction direction>
[[nodiscard]] RTOPK_HD constexpr ArithmeticOf<T> directed_arithmetic(T value) noexcept {
  return direction == Direction::largest ? arithmetic_of(value) : -arithmetic_of(value);
}

/// The least directed key of an element whose directed value is >= `threshold`.
template <class T, Direction direction>
[[nodiscard]] RTOPK_HD constexpr KeyOf<T> directed_threshold_key(ArithmeticOf<T> threshold) noexcept {
  if constexpr (direction == Direction::largest) {
    return least_key_at_least<T>(threshold);
  } else if constexpr (is_floating<T>) {
    // The condition is v <= -threshold. Floating-point numbers are symmetric, so it mirrors the case above.
    constexpr KeyOf<T> shift = directed<T, direction>(key_of(T{})) - key_of(T{});
    return static_cast<KeyOf<T>>(least_key_at_least<T>(threshold) + shift);
  } else {
    static_assert(sizeof(T) <= 4, "as in least_key_at_least");
    const auto truncated = static_cast<std::int64_t>(-threshold);
    const auto floor = static_cast<double>(truncated) > -threshold ? truncated - 1 : truncated;
    return directed_key<T, direction>(static_cast<T>(floor));
  }
}

}  // namespace rtopk::core
