// The oracle: selects by definition, with a stable sort and the paper's algorithms.
#include "oracle.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

namespace rtopk_test {
namespace {

using rtopk::Direction;
using rtopk::DType;
using rtopk::Problem;
using rtopk::Rule;
using rtopk::Search;

template <typename T>
T load(const void* from) {
  T value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Both 16-bit formats as IEEE 754 defines them: sign, biased exponent, fraction.
double decode_small(unsigned bits, int exponent_bits, int fraction_bits) {
  const unsigned fraction = bits & ((1u << fraction_bits) - 1u);
  const unsigned exponent = (bits >> fraction_bits) & ((1u << exponent_bits) - 1u);
  const double sign = (bits >> (exponent_bits + fraction_bits)) != 0 ? -1.0 : 1.0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == (1u << exponent_bits) - 1u) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<double>(fraction), 1 - bias - fraction_bits);
  return sign * std::ldexp(static_cast<double>(fraction | (1u << fraction_bits)),
                           static_cast<int>(exponent) - bias - fraction_bits);
}

/// True if a comes before b. NaN is the greatest value in both directions, and -0 equals +0.
bool better(Direction direction, double a, double b) {
  if (direction == Direction::largest) return std::isnan(a) ? !std::isnan(b) : a > b;
  return std::isnan(b) ? !std::isnan(a) : a < b;
}

std::vector<std::int64_t> rank(Direction direction, const std::vector<double>& row) {
  std::vector<std::int64_t> order(row.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return better(direction, row[static_cast<std::size_t>(a)], row[static_cast<std::size_t>(b)]);
  });
  return order;
}

/// The selection of Algorithm 1 or 2, and its number of passes.
struct Bisected {
  std::vector<std::int64_t> chosen;  // ascending
  std::int32_t passes = 0;
};

/// The paper's algorithms, which select the largest of the values `v`. Real is the type of their arithmetic.
///
/// A pass is counted if it needs a count that is not known yet. The count at lo is known to be at least k. The count
/// at hi is known to be less than k once hi has been a threshold. If the midpoint rounds to such a bound, the search
/// ends.
template <typename Real>
class Bisection {
 public:
  Bisection(std::vector<Real> values, std::int64_t k)
      : v_(std::move(values)),
        k_(k),
        lo_(*std::min_element(v_.begin(), v_.end())),
        hi_(*std::max_element(v_.begin(), v_.end())) {}

  /// Algorithm 1. The width is computed in Real, like everything else.
  Bisected to_precision(double epsilon) {
    Bisected result;
    const Real width = static_cast<Real>(epsilon) * std::abs(hi_);
    std::int64_t count = 0;
    Real threshold = lo_;
    while (hi_ - lo_ > width && !count_is_known(midpoint())) {
      threshold = midpoint();
      ++result.passes;
      count = at_or_above(threshold);
      if (count < k_) {
        hi_ = threshold;
        hi_was_threshold_ = true;
      } else if (count > k_) {
        lo_ = threshold;
      } else {
        break;
      }
    }
    if (result.passes == 0) {
      result.chosen = first(k_, [](Real) { return true; });
    } else {
      result.chosen = threshold_first(threshold, count);
    }
    return result;
  }

  /// Algorithm 2. Makes all passes, as in the paper. Passes after one that found exactly k elements inside the
  /// interval are not counted.
  Bisected limited(std::int32_t max_iter, Rule rule) {
    Bisected result;
    bool counting = true;
    Real last = lo_;
    std::int64_t at_last = 0;
    for (std::int32_t pass = 1; pass <= max_iter; ++pass) {
      const Real lo_before = lo_;
      const Real hi_before = hi_;
      const Real threshold = midpoint();
      counting = counting && !count_is_known(threshold);
      if (counting) ++result.passes;
      const std::int64_t count = at_or_above(threshold);
      last = threshold;
      at_last = count;
      if (count < k_) {
        hi_ = threshold;
        hi_was_threshold_ = true;
      } else {
        lo_ = threshold;
      }
      if (count == k_ && lo_ < hi_) counting = false;
      if (!counting && lo_ == lo_before && hi_ == hi_before) break;  // no later pass changes anything
    }
    if (rule == Rule::printed) {
      result.chosen = first(k_, [&](Real x) { return x >= lo_; });
    } else {
      result.chosen = threshold_first(last, at_last);
    }
    return result;
  }

 private:
  /// The selecting stage of the paper's kernel: `count` elements reach the last threshold.
  [[nodiscard]] std::vector<std::int64_t> threshold_first(Real threshold, std::int64_t count) const {
    auto chosen = first(k_, [&](Real x) { return x >= threshold; });
    if (count >= k_) return chosen;
    const auto rest = first(k_ - count, [&](Real x) { return lo_ <= x && x < threshold; });
    chosen.insert(chosen.end(), rest.begin(), rest.end());
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }

  /// Two rounded products and one rounded sum. The file is compiled without fused multiply-add.
  [[nodiscard]] Real midpoint() const { return static_cast<Real>(0.5) * lo_ + static_cast<Real>(0.5) * hi_; }

  [[nodiscard]] bool count_is_known(Real threshold) const {
    return threshold == lo_ || (threshold == hi_ && hi_was_threshold_);
  }

  [[nodiscard]] std::int64_t at_or_above(Real threshold) const {
    return std::count_if(v_.begin(), v_.end(), [&](Real x) { return x >= threshold; });
  }

  template <typename Predicate>
  [[nodiscard]] std::vector<std::int64_t> first(std::int64_t limit, Predicate wanted) const {
    std::vector<std::int64_t> indices;
    for (std::size_t i = 0; i < v_.size() && static_cast<std::int64_t>(indices.size()) < limit; ++i) {
      if (wanted(v_[i])) indices.push_back(static_cast<std::int64_t>(i));
    }
    return indices;
  }

  std::vector<Real> v_;
  std::int64_t k_;
  Real lo_;
  Real hi_;
  bool hi_was_threshold_ = false;
};

template <typename Real>
Bisected bisect(const Problem& problem, const std::vector<double>& row) {
  std::vector<Real> values(row.size());
  const bool mirrored = problem.direction == Direction::smallest;
  std::transform(row.begin(), row.end(), values.begin(),
                 [&](double x) { return static_cast<Real>(mirrored ? -x : x); });
  Bisection<Real> bisection(std::move(values), problem.k);
  return problem.max_iter > 0 ? bisection.limited(problem.max_iter, problem.rule)
                              : bisection.to_precision(problem.epsilon);
}

/// The type in which the paper's searches compute: float, or double for types that float does not hold.
bool computes_in_float(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16: return true;
    case DType::f64:
    case DType::i32: return false;
  }
  return false;
}

RowSelection select_row(const Problem& problem, const std::vector<double>& row) {
  RowSelection result;
  if (problem.k == 0) {
    result.passes_defined = true;
    return result;
  }
  const bool early = problem.max_iter > 0 || problem.epsilon > 0.0;
  const bool finite = std::all_of(row.begin(), row.end(), [](double x) { return std::isfinite(x); });
  if (finite && (early || problem.search == Search::bisection)) {
    const Bisected bisected =
        computes_in_float(problem.dtype) ? bisect<float>(problem, row) : bisect<double>(problem, row);
    result.passes = bisected.passes;
    result.passes_defined = problem.search == Search::bisection;
    if (early) {
      result.by_index = bisected.chosen;
      result.by_value = bisected.chosen;
      std::stable_sort(result.by_value.begin(), result.by_value.end(), [&](std::int64_t a, std::int64_t b) {
        return better(problem.direction, row[static_cast<std::size_t>(a)], row[static_cast<std::size_t>(b)]);
      });
      return result;
    }
  }
  result.by_value = rank(problem.direction, row);
  result.by_value.resize(static_cast<std::size_t>(problem.k));
  result.by_index = result.by_value;
  std::sort(result.by_index.begin(), result.by_index.end());
  return result;
}

/// A row with its start and length, and the problem with this row's k.
struct OwnRow {
  std::int64_t start = 0;
  std::int64_t length = 0;
  std::int64_t wanted = 0;
};

OwnRow row_of(const Problem& problem, const RowNumbers& numbers, std::int64_t row) {
  const auto at = static_cast<std::size_t>(row);
  const auto in_range = [](std::int64_t x, std::int64_t most) { return std::clamp<std::int64_t>(x, 0, most); };
  OwnRow own{0, problem.cols, problem.k};
  if (is_flat(problem)) {
    own.start = in_range(numbers.offsets.at(at), problem.ragged.elements);
    const std::int64_t end = in_range(numbers.offsets.at(at + 1), problem.ragged.elements);
    own.length = in_range(end - own.start, problem.cols);
  } else {
    if (problem.ragged.starts != rtopk::ArrayType::none) own.start = in_range(numbers.starts.at(at), problem.cols);
    own.length = problem.cols - own.start;
    if (problem.ragged.lengths != rtopk::ArrayType::none) own.length = in_range(numbers.lengths.at(at), own.length);
  }
  if (problem.ragged.k != rtopk::ArrayType::none) own.wanted = in_range(numbers.k.at(at), problem.k);
  return own;
}

}  // namespace

bool is_flat(const Problem& problem) { return problem.ragged.offsets != rtopk::ArrayType::none; }

bool is_general(const Problem& problem) {
  return problem.ragged != rtopk::Ragged{} || problem.index_map != rtopk::IndexMap{} || problem.magnitude ||
         problem.thresholds;
}

std::uint64_t losing_bits(const Problem& problem) {
  const bool smallest = problem.direction == Direction::smallest;
  if (!smallest && problem.magnitude) return 0;
  switch (problem.dtype) {
    case DType::f32: return smallest ? 0x7fc00000u : 0xff800000u;
    case DType::f16: return smallest ? 0x7e00u : 0xfc00u;
    case DType::bf16: return smallest ? 0x7fc0u : 0xff80u;
    case DType::f64: return smallest ? 0x7ff8000000000000u : 0xfff0000000000000u;
    case DType::i32: return smallest && !problem.magnitude ? 0x7fffffffu : 0x80000000u;
  }
  return 0;
}

std::int64_t written_index(const Problem& problem, const RowNumbers& numbers, std::int64_t row, std::int64_t start,
                           std::int64_t index) {
  const rtopk::IndexMap& map = problem.index_map;
  const auto number = [&](std::int64_t at) { return numbers.map.at(static_cast<std::size_t>(at)); };
  // Sums and products wrap around.
  const auto sum = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  };
  const std::int64_t place = index - start;
  switch (map.kind) {
    case rtopk::IndexKind::column: return index;
    case rtopk::IndexKind::ids:
      return number(is_flat(problem) ? index : row * (map.stride == 0 ? problem.cols : map.stride) + index);
    case rtopk::IndexKind::shifted: return sum(number(row), place);
    case rtopk::IndexKind::pages: break;
  }
  const bool shared = map.table_of != rtopk::ArrayType::none;
  const std::int64_t table = shared ? numbers.table_of.at(static_cast<std::size_t>(row)) : row;
  const std::int64_t page = place / map.page_size;
  if (table < 0 || table >= (map.tables == 0 ? problem.rows : map.tables) || page >= map.pages) return -1;
  const std::int64_t entry = number(table * (map.stride == 0 ? map.pages : map.stride) + page);
  if (entry < 0) return -1;
  const auto first = static_cast<std::uint64_t>(entry) * static_cast<std::uint64_t>(map.page_size);
  return sum(static_cast<std::int64_t>(first), place % map.page_size);
}

double decode(DType dtype, const void* element) {
  switch (dtype) {
    case DType::f32: return static_cast<double>(load<float>(element));
    case DType::f16: return decode_small(load<std::uint16_t>(element), 5, 10);
    case DType::bf16: return decode_small(load<std::uint16_t>(element), 8, 7);
    case DType::f64: return load<double>(element);
    case DType::i32: return static_cast<double>(load<std::int32_t>(element));
  }
  return 0.0;
}

std::int64_t place_of(const Problem& problem, std::int64_t row, std::int64_t column) {
  const std::int64_t step = problem.element_stride == 0 ? 1 : problem.element_stride;
  const std::int64_t pitch = problem.row_stride == 0 ? problem.cols * step : problem.row_stride;
  if (problem.group_rows == 0) return row * pitch + column * step;
  const std::int64_t group = row / problem.group_rows;
  return group * problem.group_stride + (row - group * problem.group_rows) * pitch + column * step;
}

std::vector<RowSelection> select(const Problem& problem, const void* input, const RowNumbers& numbers) {
  const std::size_t size = rtopk::size_of(problem.dtype);
  std::vector<RowSelection> rows;
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    const OwnRow own = row_of(problem, numbers, r);
    std::vector<double> row(static_cast<std::size_t>(own.length));
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::int64_t index = own.start + static_cast<std::int64_t>(c);
      const auto at = static_cast<std::size_t>(is_flat(problem) ? index : place_of(problem, r, index));
      row[c] = decode(problem.dtype, static_cast<const std::byte*>(input) + at * size);
      if (problem.magnitude) row[c] = std::abs(row[c]);
    }
    Problem of_row = problem;
    of_row.k = std::min(own.wanted, own.length);
    RowSelection selection = select_row(of_row, row);
    for (std::int64_t& index : selection.by_value) index += own.start;
    for (std::int64_t& index : selection.by_index) index += own.start;
    selection.start = own.start;
    selection.length = own.length;
    selection.is_short = own.wanted == 0 || own.length < own.wanted;
    rows.push_back(std::move(selection));
  }
  return rows;
}

}  // namespace rtopk_test
