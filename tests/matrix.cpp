// Generates matrices with difficult rows.
#include "matrix.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include <rtopk/half.hpp>

namespace rtopk_test {
namespace {

using rtopk::DType;

constexpr const char* kNames[] = {
    "normal",
    "uniform",
    "negative",
    "all_equal",
    "all_equal_but_one",
    "two_values",
    "quantised",
    "ties_at_border",
    "ascending",
    "descending",
    "organ_pipe",
    "half_zeros",
    "signed_zeros",
    "zeros_at_border",
    "denormals",
    "one_outlier",
    "shared_leading_bits",
    "neighbours",
    "alternating_signs",
    "extremes",
    "own_scale",
    "every_scale",
    "infinities",
    "infinities_at_border",
    "minus_infinities",
    "all_nan",
    "nan_at_border",
    "one_nan",
    "nan_and_infinities",
    "random_bits",
};
static_assert(std::size(kNames) == static_cast<std::size_t>(kPatterns));

struct Format {
  int fraction_bits;
  int exponent_bits;
};

Format format(DType dtype) {
  switch (dtype) {
    case DType::f16: return {10, 5};
    case DType::bf16: return {7, 8};
    case DType::f64: return {52, 11};
    case DType::f32:
    case DType::i32: break;
  }
  return {23, 8};
}

std::uint64_t sign_bit(DType dtype) { return std::uint64_t{1} << (8 * rtopk::size_of(dtype) - 1); }

double greatest_finite(DType dtype) {
  switch (dtype) {
    case DType::f32: return static_cast<double>(std::numeric_limits<float>::max());
    case DType::f16: return 65504.0;
    case DType::bf16: return static_cast<double>(rtopk::float_from_bf16(0x7f7f));
    case DType::f64: return std::numeric_limits<double>::max();
    case DType::i32: return std::numeric_limits<std::int32_t>::max();
  }
  return 0.0;
}

/// Scale of a pattern's numbers: without it, integers would all round to 0 or 1.
double unit(DType dtype) { return is_integer(dtype) ? 1e6 : 1.0; }

/// A row under construction, as bits.
class Row {
 public:
  Row(DType dtype, std::int64_t cols, std::int64_t k, Random& random)
      : dtype_(dtype), bits_(static_cast<std::size_t>(cols)), k_(k), random_(random) {}

  std::vector<std::uint64_t> fill(Pattern pattern);

 private:
  [[nodiscard]] std::int64_t cols() const { return static_cast<std::int64_t>(bits_.size()); }
  [[nodiscard]] std::uint64_t number(double value) const { return encode(dtype_, value * unit(dtype_)); }
  [[nodiscard]] std::uint64_t& anywhere() { return bits_[static_cast<std::size_t>(random_.between(0, cols() - 1))]; }

  template <typename Make>
  void each(Make make) {
    for (auto& bits : bits_) bits = make();
  }

  void normal() {
    each([&] { return number(random_.normal()); });
  }

  /// Writes `count` elements at random positions.
  template <typename Make>
  void scatter(std::int64_t count, Make make) {
    std::vector<std::size_t> places(bits_.size());
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
    count = std::clamp<std::int64_t>(count, 0, cols());
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      std::swap(places[i], places[static_cast<std::size_t>(random_.between(static_cast<std::int64_t>(i), cols() - 1))]);
      bits_[places[i]] = make();
    }
  }

  void sort(bool ascending) {
    std::vector<double> values(bits_.size());
    std::generate(values.begin(), values.end(), [&] { return random_.normal(); });
    std::sort(values.begin(), values.end());
    if (!ascending) std::reverse(values.begin(), values.end());
    std::transform(values.begin(), values.end(), bits_.begin(), [&](double x) { return number(x); });
  }

  void organ_pipe() {
    for (std::int64_t i = 0; i < cols(); ++i) {
      bits_[static_cast<std::size_t>(i)] = number(static_cast<double>(std::min(i, cols() - 1 - i)) / 64.0);
    }
  }

  /// Fewer than k elements above `kth_value()`, at least k at or above it.
  template <typename Border>
  void border(Border border) {
    each([&] { return number(-0.5 - random_.uniform()); });
    const std::int64_t equal = random_.between(1, std::max<std::int64_t>(1, cols() / 2));
    scatter(k_ + equal, border);
    // Positions may coincide with earlier ones; then only the number of ties changes.
    scatter(random_.between(0, k_ - 1), [&] { return number(0.5 + random_.uniform()); });
  }

  void shared_leading_bits() {
    const std::uint64_t base = number(1.0 + random_.uniform());
    const std::uint64_t low = dtype_ == DType::f16 || dtype_ == DType::bf16 ? 7u : 0xffu;
    each([&] { return (base & ~low) | (random_.bits() & low); });
  }

  void neighbours() {
    const std::uint64_t base = number((random_.coin() ? 1.0 : -1.0) * (1.0 + random_.uniform()));
    const auto spread = static_cast<std::uint64_t>(random_.between(1, 2));
    each([&] { return base + random_.bits() % (spread + 1); });
  }

  void denormals() {
    const std::uint64_t mask = is_integer(dtype_) ? 0x7u : (std::uint64_t{1} << format(dtype_).fraction_bits) - 1u;
    const std::uint64_t few = random_.coin() ? mask : mask & 0x7u;
    each([&] { return (random_.bits() & few) | (!is_integer(dtype_) && random_.coin() ? sign_bit(dtype_) : 0u); });
  }

  void extremes() {
    const double greatest = greatest_finite(dtype_);
    each([&] {
      switch (random_.between(0, 3)) {
        case 0: return encode(dtype_, greatest);
        case 1: return is_integer(dtype_) ? sign_bit(dtype_) : encode(dtype_, -greatest);
        case 2: return encode(dtype_, greatest * (1.0 - 0.25 * random_.uniform()));
        default: return number(random_.normal());
      }
    });
  }

  void every_scale() {
    const int reach = dtype_ == DType::f16 ? 14 : is_integer(dtype_) ? 10 : 100;
    each([&] { return number(std::ldexp(random_.normal(), static_cast<int>(random_.between(-reach, reach)))); });
  }

  void own_scale() {
    const int reach = dtype_ == DType::f16 ? 14 : is_integer(dtype_) ? 10 : 100;
    const double factor = std::ldexp(1.0, static_cast<int>(random_.between(-reach, reach)));
    each([&] { return number(random_.normal() * factor); });
  }

  void one_outlier() {
    normal();
    anywhere() = encode(dtype_, (random_.coin() ? 1.0 : -1.0) * std::min(1e30, greatest_finite(dtype_)));
  }

  DType dtype_;
  std::vector<std::uint64_t> bits_;
  std::int64_t k_;
  Random& random_;
};

std::vector<std::uint64_t> Row::fill(Pattern pattern) {
  const auto infinity = [&] { return infinity_bits(dtype_, false); };
  const auto either_infinity = [&] { return infinity_bits(dtype_, random_.coin()); };
  const auto nan = [&] { return nan_bits(dtype_, random_); };
  const auto zero = [&] { return random_.coin() && !is_integer(dtype_) ? sign_bit(dtype_) : std::uint64_t{0}; };
  const double constant = random_.normal();
  switch (pattern) {
    case Pattern::normal: normal(); break;
    case Pattern::uniform: each([&] { return number(random_.uniform()); }); break;
    case Pattern::negative: each([&] { return number(-1.0 - random_.uniform()); }); break;
    case Pattern::all_equal: each([&] { return number(constant); }); break;
    case Pattern::all_equal_but_one:
      each([&] { return number(constant); });
      anywhere() = number(random_.normal());
      break;
    case Pattern::two_values: each([&] { return number(random_.coin() ? constant : -constant); }); break;
    case Pattern::quantised: each([&] { return number(std::round(random_.normal() * 4.0) / 4.0); }); break;
    case Pattern::ties_at_border: border([&] { return number(0.25); }); break;
    case Pattern::ascending: sort(true); break;
    case Pattern::descending: sort(false); break;
    case Pattern::organ_pipe: organ_pipe(); break;
    case Pattern::half_zeros: each([&] { return number(std::max(0.0, random_.normal())); }); break;
    case Pattern::signed_zeros: each(zero); break;
    case Pattern::zeros_at_border: border(zero); break;
    case Pattern::denormals: denormals(); break;
    case Pattern::one_outlier: one_outlier(); break;
    case Pattern::shared_leading_bits: shared_leading_bits(); break;
    case Pattern::neighbours: neighbours(); break;
    case Pattern::alternating_signs: {
      double sign = 1.0;
      each([&] { return number((sign = -sign) * (1.0 + 0.01 * random_.uniform())); });
      break;
    }
    case Pattern::extremes: extremes(); break;
    case Pattern::own_scale: own_scale(); break;
    case Pattern::every_scale: every_scale(); break;
    case Pattern::infinities:
      normal();
      scatter(random_.between(1, cols()), either_infinity);
      break;
    case Pattern::infinities_at_border:
      normal();
      scatter(k_ + random_.between(-1, 1), infinity);
      break;
    case Pattern::minus_infinities:
      each([&] { return infinity_bits(dtype_, true); });
      scatter(k_ + random_.between(-1, 1), [&] { return number(random_.normal()); });
      break;
    case Pattern::all_nan: each(nan); break;
    case Pattern::nan_at_border:
      normal();
      scatter(k_ + random_.between(-1, 1), nan);
      break;
    case Pattern::one_nan:
      normal();
      anywhere() = nan();
      break;
    case Pattern::nan_and_infinities:
      normal();
      scatter(k_, either_infinity);
      scatter(std::max<std::int64_t>(1, k_ / 2), nan);
      break;
    case Pattern::random_bits: each([&] { return random_.bits(); }); break;
  }
  return bits_;
}

void append(Matrix& matrix, const std::vector<std::uint64_t>& row) {
  const std::size_t size = rtopk::size_of(matrix.dtype);
  for (const std::uint64_t bits : row) {
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t byte = std::endian::native == std::endian::little ? i : size - 1 - i;
      matrix.bytes.push_back(static_cast<std::byte>(bits >> (8 * byte)));
    }
  }
}

}  // namespace

bool is_integer(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f64: return false;
    case DType::i32: return true;
  }
  return false;
}

const char* name(Pattern pattern) { return kNames[static_cast<int>(pattern)]; }

std::uint64_t encode(DType dtype, double value) {
  switch (dtype) {
    case DType::f32: return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case DType::f16: return rtopk::f16_from_float(static_cast<float>(value));
    case DType::bf16: return rtopk::bf16_from_float(static_cast<float>(value));
    case DType::f64: return std::bit_cast<std::uint64_t>(value);
    case DType::i32: {
      const double clamped = std::clamp(value, -2147483648.0, 2147483647.0);
      return static_cast<std::uint32_t>(static_cast<std::int32_t>(std::lrint(clamped)));
    }
  }
  return 0;
}

std::uint64_t infinity_bits(DType dtype, bool negative) {
  const std::uint64_t sign = negative ? sign_bit(dtype) : 0;
  if (is_integer(dtype)) return negative ? sign : sign_bit(dtype) - 1;
  const Format layout = format(dtype);
  return sign | (((std::uint64_t{1} << layout.exponent_bits) - 1u) << layout.fraction_bits);
}

std::uint64_t nan_bits(DType dtype, Random& random) {
  if (is_integer(dtype)) return infinity_bits(dtype, random.coin());
  const std::uint64_t fractions = (std::uint64_t{1} << format(dtype).fraction_bits) - 1u;
  const std::uint64_t payloads[] = {1u, fractions, (fractions >> 1) + 1u, random.bits() & fractions};
  const std::uint64_t payload = std::max<std::uint64_t>(1u, random.pick(payloads));
  return infinity_bits(dtype, random.coin()) | payload;
}

std::vector<std::byte> bait(DType dtype, rtopk::Direction direction, bool magnitude) {
  Matrix matrix;
  matrix.dtype = dtype;
  const bool largest = direction == rtopk::Direction::largest;
  std::uint64_t bits = infinity_bits(dtype, !largest);
  if (magnitude) bits = largest ? infinity_bits(dtype, true) : 0;  // the least integer has the greatest magnitude
  if (largest && !is_integer(dtype)) bits |= 1u;                   // a NaN
  append(matrix, {bits});
  return matrix.bytes;
}

Matrix make_matrix(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t k, Pattern pattern, Random& random) {
  Matrix matrix{dtype, rows, cols, {}, std::string("every row ") + name(pattern)};
  matrix.bytes.reserve(static_cast<std::size_t>(rows * cols) * rtopk::size_of(dtype));
  for (std::int64_t r = 0; r < rows; ++r) append(matrix, Row(dtype, cols, k, random).fill(pattern));
  return matrix;
}

Matrix make_mixed_matrix(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t k, Random& random) {
  const auto start = static_cast<int>(random.between(0, kPatterns - 1));
  Matrix matrix{dtype, rows, cols, {}, std::string("rows of every pattern from ") + kNames[start] + " on"};
  matrix.bytes.reserve(static_cast<std::size_t>(rows * cols) * rtopk::size_of(dtype));
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto pattern = static_cast<Pattern>((start + r) % kPatterns);
    append(matrix, Row(dtype, cols, k, random).fill(pattern));
  }
  return matrix;
}

Matrix make_row(DType dtype, const std::vector<double>& row) {
  Matrix matrix{dtype, 1, static_cast<std::int64_t>(row.size()), {}, "one row by hand"};
  std::vector<std::uint64_t> bits(row.size());
  std::transform(row.begin(), row.end(), bits.begin(), [&](double x) { return encode(dtype, x); });
  append(matrix, bits);
  return matrix;
}

}  // namespace rtopk_test
