// Implementation of the reference family: sorts every row, or runs the paper's search step by step.
#include "core/reference.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "core/keys.hpp"
#include "core/rows.hpp"
#include "core/search.hpp"
#include "core/sizes.hpp"

namespace rtopk::core {
namespace {

/// A row whose elements are `stride` apart, and how they compare.
template <class T, Direction direction>
struct Row {
  const T* first;
  std::int64_t stride;
  std::int64_t length;
  std::int64_t k;
  bool magnitude;

  const T& operator[](std::int64_t i) const { return first[i * stride]; }
  [[nodiscard]] KeyOf<T> key(std::int64_t i) const {
    return directed<T, direction>(magnitude ? magnitude_key((*this)[i]) : key_of((*this)[i]));
  }
  /// What the paper's search compares.
  [[nodiscard]] ArithmeticOf<T> value(std::int64_t i) const {
    if (!magnitude) return directed_arithmetic<T, direction>((*this)[i]);
    const auto absolute = std::abs(arithmetic_of((*this)[i]));
    return direction == Direction::largest ? absolute : -absolute;
  }
  /// True if element a comes before b: it is better, or equal and earlier.
  [[nodiscard]] bool comes_first(std::int64_t a, std::int64_t b) const {
    return key(a) != key(b) ? key(a) > key(b) : a < b;
  }
  [[nodiscard]] bool all_finite() const {
    for (std::int64_t i = 0; i < length; ++i) {
      const auto plain = key_of((*this)[i]);
      if (plain < lower_finite_key<T> || plain > upper_finite_key<T>) return false;
    }
    return true;
  }
};

/// Runs the paper's search on a row of finite values.
template <class T, Direction direction>
Selection<ArithmeticOf<T>> bisect(const Problem& problem, const Row<T, direction>& row) {
  using Real = ArithmeticOf<T>;
  Real least = row.value(0);
  Real greatest = row.value(0);
  for (std::int64_t i = 1; i < row.length; ++i) {
    least = std::min(least, row.value(i));
    greatest = std::max(greatest, row.value(i));
  }
  Bisection<Real> search(least, greatest, row.k, problem.max_iter, problem.rule, problem.epsilon);
  while (search.next()) {
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < row.length; ++i) counted += row.value(i) >= search.middle() ? 1 : 0;
    search.record(counted);
  }
  return search.selection();
}

/// Moves the positions that `selection` takes to the front of `order`, in ascending order.
template <class T, Direction direction>
void take(const Selection<ArithmeticOf<T>>& selection, const Row<T, direction>& row, std::int64_t* order) {
  std::int64_t places_to_fill = row.k - selection.count_sure;
  std::int64_t taken = 0;
  for (std::int64_t i = 0; i < row.length && taken < row.k; ++i) {
    if (!selection.fill_only && row.value(i) >= selection.sure) {
      order[taken++] = i;
    } else if (row.value(i) >= selection.fill && places_to_fill > 0) {
      order[taken++] = i;
      --places_to_fill;
    }
  }
}

/// What is written for a row, and where.
template <class T>
class Writer {
 public:
  Writer(const Problem& problem, const RowArrays& arrays, const Output& output, std::int64_t number,
         const RowShape& shape)
      : problem_(problem), arrays_(arrays), output_(output), number_(number), shape_(shape) {}

  /// `chosen`: places in the row, in output order.
  template <Direction direction>
  void write(const Row<T, direction>& row, const std::int64_t* chosen) const {
    if (problem_.form == Form::dense) {
      auto* dense = static_cast<KeyOf<T>*>(output_.dense) + number_ * problem_.cols;
      std::fill_n(dense, problem_.cols, KeyOf<T>{});
      for (std::int64_t i = 0; i < row.k; ++i) dense[shape_.start + chosen[i]] = bits_of(row[chosen[i]]);
    } else if (problem_.form == Form::mask) {
      std::uint8_t* mask = output_.mask + number_ * problem_.cols;
      std::fill_n(mask, problem_.cols, std::uint8_t{});
      for (std::int64_t i = 0; i < row.k; ++i) mask[shape_.start + chosen[i]] = 1;
    } else {
      switch (problem_.index_type) {
        case IndexType::i32: return write_pairs<std::int32_t>(row, chosen);
        case IndexType::i64: return write_pairs<std::int64_t>(row, chosen);
        case IndexType::u8: return write_pairs<std::uint8_t>(row, chosen);
        case IndexType::u16: return write_pairs<std::uint16_t>(row, chosen);
      }
    }
  }

  template <Direction direction>
  void write_threshold(const Row<T, direction>& row, const std::int64_t* chosen) const {
    const auto worst = [&row](std::int64_t a, std::int64_t b) { return row.comes_first(a, b); };
    static_cast<KeyOf<T>*>(output_.thresholds)[number_] =
        shape_.is_short ? losing() : bits_of(row[*std::max_element(chosen, chosen + row.k, worst)]);
  }

 private:
  [[nodiscard]] KeyOf<T> losing() const {
    return losing_bits<T>(problem_.direction == Direction::smallest, problem_.magnitude);
  }

  template <class Index, Direction direction>
  void write_pairs(const Row<T, direction>& row, const std::int64_t* chosen) const {
    const auto map = RowMap::of(whole_map(problem_), arrays_, is_flat(problem_), number_);
    for (std::int64_t i = 0; i < problem_.k; ++i) {
      const std::int64_t at = number_ * problem_.k + i;
      const bool exists = i < row.k;
      // Copy bits: loading and storing a signalling NaN as a floating-point value may change it.
      if (writes_values(problem_)) {
        static_cast<KeyOf<T>*>(output_.values)[at] = exists ? bits_of(row[chosen[i]]) : losing();
      }
      if (writes_indices(problem_)) {
        const std::int64_t index = exists ? map.index(shape_.start, chosen[i]) : -1;
        static_cast<Index*>(output_.indices)[at] = static_cast<Index>(index);
      }
    }
  }

  const Problem& problem_;
  const RowArrays& arrays_;
  const Output& output_;
  std::int64_t number_;
  const RowShape& shape_;
};

template <class T, Direction direction>
void select_row(const Problem& problem, const Row<T, direction>& row, const Writer<T>& writer, std::int32_t* passes,
                std::int64_t* order) {
  bool exact = true;
  std::int32_t passed = 0;
  if (bisects(problem) && row.k > 0 && row.all_finite()) {
    const auto selection = bisect(problem, row);
    passed = selection.passes;
    exact = !stops_early(problem);
    if (!exact) take(selection, row, order);
  }
  const auto comes_first = [&row](std::int64_t a, std::int64_t b) { return row.comes_first(a, b); };
  if (exact) {
    std::iota(order, order + row.length, std::int64_t{0});
    std::sort(order, order + row.length, comes_first);
  }
  if (problem.order == Order::by_value) {
    std::sort(order, order + row.k, comes_first);
  } else {
    std::sort(order, order + row.k);
  }
  writer.write(row, order);
  if (problem.thresholds) writer.write_threshold(row, order);
  if (problem.passes) *passes = passed;
}

}  // namespace

std::size_t reference_scratch_bytes(const Problem& problem) noexcept {
  return bytes_of(problem.cols + 1, sizeof(std::int64_t));  // one extra, for alignment
}

void reference_rows(const Problem& problem, const void* input, const RowArrays& arrays, const Output& output,
                    std::int64_t begin, std::int64_t end, void* scratch) noexcept {
  std::size_t room = reference_scratch_bytes(problem);
  auto* order = static_cast<std::int64_t*>(std::align(alignof(std::int64_t), 1, scratch, room));
  with_element_type(problem.dtype, [&]<class T>(T*) {
    with_direction(problem.direction, [&](auto tag) {
      for (std::int64_t number = begin; number < end; ++number) {
        const RowShape shape = row_shape(problem.ragged, arrays, problem.cols, problem.k, number);
        const std::int64_t first = (is_flat(problem) ? 0 : row_start(problem, number)) + shape.start;
        const Row<T, decltype(tag)::value> row{static_cast<const T*>(input) + first, element_stride_of(problem),
                                               shape.length, shape.k, problem.magnitude};
        std::int32_t* passes = problem.passes ? output.passes + number : nullptr;
        select_row(problem, row, Writer<T>(problem, arrays, output, number, shape), passes, order);
      }
    });
  });
}

}  // namespace rtopk::core
