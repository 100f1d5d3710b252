// Random numbers that are the same on every machine and standard library, and their seed.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace rtopk_test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  [[nodiscard]] std::uint64_t bits() { return engine_(); }
  /// In [low, high].
  [[nodiscard]] std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  [[nodiscard]] bool coin() { return (engine_() & 1u) != 0; }
  /// In [0, 1).
  [[nodiscard]] double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  /// Approximately normal: the sum of twelve uniform numbers.
  [[nodiscard]] double normal() {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }
  template <typename Container>
  [[nodiscard]] const auto& pick(const Container& container) {
    return container[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(std::size(container)) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

/// RTOPK_TEST_SEED, or a fixed number, so that runs are repeatable.
inline std::uint64_t seed() {
  const char* text = std::getenv("RTOPK_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20250301;
}

/// RTOPK_TEST_SCALE: how much to test, 1 by default. Sanitizer runs use less, nightly runs more.
inline double scale() {
  const char* text = std::getenv("RTOPK_TEST_SCALE");
  const double value = text != nullptr ? std::strtod(text, nullptr) : 1.0;
  return value > 0.0 ? value : 1.0;
}

/// True if one of many cases should be skipped because of a small scale.
inline bool left_out(Random& random) {
  static const double wanted = scale();
  return wanted < 1.0 && random.uniform() >= wanted;
}

/// `count` times the scale, at least 1.
inline std::int64_t scaled(std::int64_t count) {
  const double amount = std::round(static_cast<double>(count) * scale());
  return amount < 1.0 ? 1 : static_cast<std::int64_t>(amount);
}

}  // namespace rtopk_test
