// SplitMix64: a random number generator that gives the same numbers on every machine and is cheap to seed.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace rtopk::tool {

/// Mixes 64 bits: a bijection whose result looks random.
[[nodiscard]] constexpr std::uint64_t scramble(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) noexcept : state_(seed) {}

  [[nodiscard]] std::uint64_t bits() noexcept { return scramble(state_ += step); }
  /// In [0, 1).
  [[nodiscard]] double uniform() noexcept { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// In [low, high].
  [[nodiscard]] std::int64_t between(std::int64_t low, std::int64_t high) noexcept {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  [[nodiscard]] bool one_in(std::int64_t n) noexcept { return between(1, n) == 1; }
  /// In [low, high], uniform in the logarithm. `low` is at least 1.
  [[nodiscard]] std::int64_t log_between(std::int64_t low, std::int64_t high) noexcept {
    const double ratio = static_cast<double>(high + 1) / static_cast<double>(low);
    const auto drawn = static_cast<std::int64_t>(static_cast<double>(low) * std::pow(ratio, uniform()));
    return drawn < low ? low : drawn > high ? high : drawn;
  }
  template <typename Container>
  [[nodiscard]] auto pick(const Container& container) noexcept {
    return container[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(std::size(container)) - 1))];
  }

  static constexpr std::uint64_t step = 0x9e3779b97f4a7c15u;  ///< Odd, near 2^64 / golden ratio.

 private:
  std::uint64_t state_;
};

}  // namespace rtopk::tool
