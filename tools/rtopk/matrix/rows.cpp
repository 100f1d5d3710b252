// This file is compiled without fused multiply-add: the same rows on every machine (see matrix/random.cpp).
#include "matrix/rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <rtopk/half.hpp>

#include "matrix/random.hpp"
#include "matrix/split_mix.hpp"

namespace rtopk::tool {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t blocks_per_thread = 8;

template <typename T>
void put(T value, void* out, std::size_t i) {
  std::memcpy(static_cast<std::byte*>(out) + i * sizeof(T), &value, sizeof(T));
}

void store(DType dtype, double value, void* out, std::size_t i) {
  switch (dtype) {
    case DType::f32: return put(static_cast<float>(value), out, i);
    case DType::f16: return put(f16_from_float(static_cast<float>(value)), out, i);
    case DType::bf16: return put(bf16_from_float(static_cast<float>(value)), out, i);
    case DType::f64: return put(value, out, i);
    case DType::i32: {
      // Scaled, because fractions would become 0. NaN becomes the greatest number.
      const double scaled = std::isnan(value) ? infinity : value * 0x1p16;
      return put(static_cast<std::int32_t>(std::clamp(scaled, -0x1p31, 0x1p31 - 1.0)), out, i);
    }
  }
}

/// A power of two from 2^-range to 2^range.
double any_scale(int range, SplitMix& random) {
  return std::ldexp(1.0, static_cast<int>(random.between(-range, range)));
}

/// Replaces about one, a tenth or half of the numbers by `value()`.
template <typename Value>
void sprinkle(std::vector<double>& numbers, SplitMix& random, Value&& value) {
  const std::int64_t one_of =
      random.pick(std::array<std::int64_t, 3>{2, 10, static_cast<std::int64_t>(numbers.size())});
  for (double& number : numbers) {
    if (random.one_in(one_of)) number = value();
  }
}

/// One per thread: it owns its scratch memory.
class RowMaker {
 public:
  explicit RowMaker(const RowSpec& spec) : spec_(spec), numbers_(static_cast<std::size_t>(spec.cols)) {}

  void make(std::int64_t row, std::byte* out);

 private:
  void make_numbers(RowKind kind, std::uint64_t seed);

  RowSpec spec_;
  std::vector<double> numbers_;
};

void RowMaker::make(std::int64_t row, std::byte* out) {
  RowKind kind = spec_.kind;
  const std::uint64_t seed = scramble(spec_.seed + static_cast<std::uint64_t>(row) * SplitMix::step);
  if (kind == RowKind::mixed)
    kind = row_kinds[seed % (row_kinds.size() - 1)];  // all kinds but mixed, which is the last
  if (kind == RowKind::any_bits) {
    SplitMix random(seed);
    const std::size_t size = size_of(spec_.dtype);
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const std::uint64_t bits = random.bits() >> (64 - 8 * size);
      std::memcpy(out + i * size, &bits, size);
    }
    return;
  }
  make_numbers(kind, seed);
  for (std::size_t i = 0; i < numbers_.size(); ++i) store(spec_.dtype, numbers_[i], out, i);
}

void RowMaker::make_numbers(RowKind kind, std::uint64_t seed) {
  SplitMix random(seed);
  const auto draw = [&](Distribution distribution) {
    fill_random({.distribution = distribution, .seed = random.bits(), .dtype = DType::f64}, 0,
                static_cast<std::int64_t>(numbers_.size()), numbers_.data());
  };
  switch (kind) {
    case RowKind::normal: return draw(Distribution::normal);
    case RowKind::own_scale: {
      draw(Distribution::normal);
      const double scale = any_scale(12, random);
      const double mean = (random.uniform() - 0.5) * any_scale(12, random);
      for (double& number : numbers_) number = mean + scale * number;
      return;
    }
    case RowKind::two_humps: {
      draw(Distribution::normal);
      const double distance = 10.0 * any_scale(6, random);
      const std::int64_t one_of = random.log_between(2, 64);
      for (double& number : numbers_) number += random.one_in(one_of) ? distance : 0.0;
      return;
    }
    case RowKind::softmax: {
      draw(Distribution::lognormal);
      for (double& number : numbers_) number = number * number * (number * number);
      const double sum = std::accumulate(numbers_.begin(), numbers_.end(), 0.0);
      for (double& number : numbers_) number /= sum;
      return;
    }
    case RowKind::sparse: {
      draw(Distribution::normal);
      const std::int64_t one_of = random.log_between(2, 200);
      for (double& number : numbers_) {
        if (!random.one_in(one_of)) number = std::copysign(0.0, number);
      }
      return;
    }
    case RowKind::ties: return draw(Distribution::ties);
    case RowKind::constant: {
      const double value = (random.uniform() - 0.5) * any_scale(12, random);
      std::fill(numbers_.begin(), numbers_.end(), value);
      return;
    }
    case RowKind::at_threshold: {
      std::fill(numbers_.begin(), numbers_.end(), 0.5);
      // Places may repeat, so there are about k of them, not exactly.
      for (std::int64_t left = spec_.k + random.between(-2, 2); left > 0; --left) {
        numbers_[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(numbers_.size()) - 1))] =
            0.5 + random.uniform();
      }
      return;
    }
    case RowKind::ascending:
    case RowKind::descending: {
      const double scale = any_scale(4, random) / static_cast<double>(numbers_.size());
      for (std::size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = static_cast<double>(i) * scale;
      if (kind == RowKind::descending) std::reverse(numbers_.begin(), numbers_.end());
      return;
    }
    case RowKind::narrow:
      for (double& number : numbers_) number = 1.0 + random.uniform() * 0x1p-10;
      return;
    case RowKind::infinities:
      draw(Distribution::normal);
      return sprinkle(numbers_, random, [&] { return random.one_in(2) ? infinity : -infinity; });
    case RowKind::nans:
      draw(Distribution::normal);
      return sprinkle(numbers_, random, [&] { return std::copysign(nan, random.one_in(2) ? 1.0 : -1.0); });
    case RowKind::any_bits:
    case RowKind::mixed: return;  // make() handles these
  }
}

}  // namespace

const char* name(RowKind kind) noexcept {
  switch (kind) {
    case RowKind::normal: return "normal";
    case RowKind::own_scale: return "own_scale";
    case RowKind::two_humps: return "two_humps";
    case RowKind::softmax: return "softmax";
    case RowKind::sparse: return "sparse";
    case RowKind::ties: return "ties";
    case RowKind::constant: return "constant";
    case RowKind::at_threshold: return "at_threshold";
    case RowKind::ascending: return "ascending";
    case RowKind::descending: return "descending";
    case RowKind::narrow: return "narrow";
    case RowKind::infinities: return "infinities";
    case RowKind::nans: return "nans";
    case RowKind::any_bits: return "any_bits";
    case RowKind::mixed: return "mixed";
  }
  return "?";
}

void make_rows(const RowSpec& spec, std::int64_t first, std::int64_t count, std::byte* out, ThreadPool& pool) {
  const std::size_t row_bytes = static_cast<std::size_t>(spec.cols) * size_of(spec.dtype);
  const std::int64_t blocks = std::min<std::int64_t>(count, blocks_per_thread * pool.threads());
  pool.run(blocks, [&](std::int64_t block) {
    RowMaker maker(spec);
    for (std::int64_t row = count * block / blocks; row < count * (block + 1) / blocks; ++row) {
      maker.make(first + row, out + static_cast<std::size_t>(row) * row_bytes);
    }
  });
}

void write_bait(DType dtype, Direction direction, std::int64_t count, void* out) {
  const double value = direction == Direction::largest ? nan : -infinity;
  for (std::int64_t i = 0; i < count; ++i) store(dtype, value, out, static_cast<std::size_t>(i));
}

}  // namespace rtopk::tool
