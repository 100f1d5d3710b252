// Implementation of the reference family: sorts every row, or runs the paper's search step by step.
#include "core/reference.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "core/keys.hpp"
#include "core/search.hpp"
#include "core/sizes.hpp"

namespace rtopk::core {
namespace {

/// A row whose elements are `stride` apart.
template <class T>
struct Row {
  const T* first;
  std::int64_t stride;

  const T& operator[](std::int64_t i) const { return first[i * stride]; }
};

/// Sorts the positions of all elements, best first.
template <class T, Direction direction>
void select_exactly(const Row<T>& row, std::int64_t cols, std::int64_t* order) {
  std::iota(order, order + cols, std::int64_t{0});
  std::sort(order, order + cols, [&row](std::int64_t a, std::int64_t b) {
    const auto key_a = directed_key<T, direction>(row[a]);
    const auto key_b = directed_key<T, direction>(row[b]);
    return key_a != key_b ? key_a > key_b : a < b;
  });
}

template <class T>
bool all_finite(const Row<T>& row, std::int64_t cols) {
  for (std::int64_t i = 0; i < cols; ++i) {
    const auto key = key_of(row[i]);
    if (key < lower_finite_key<T> || key > upper_finite_key<T>) return false;
  }
  return true;
}

/// Runs the paper's search on a row of finite values.
template <class T, Direction direction>
Selection<ArithmeticOf<T>> bisect(const Problem& problem, const Row<T>& row) {
  using Real = ArithmeticOf<T>;
  const auto value = [&row](std::int64_t i) { return directed_arithmetic<T, direction>(row[i]); };
  Real least = value(0);
  Real greatest = value(0);
  for (std::int64_t i = 1; i < problem.cols; ++i) {
    least = std::min(least, value(i));
    greatest = std::max(greatest, value(i));
  }
  Bisection<Real> search(least, greatest, problem.k, problem.max_iter, problem.rule, problem.epsilon);
  while (search.next()) {
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < problem.cols; ++i) counted += value(i) >= search.middle() ? 1 : 0;
    search.record(counted);
  }
  return search.selection();
}

/// Moves the positions that `selection` takes to the front of `order`, in ascending order.
template <class T, Direction direction>
void take(const Selection<ArithmeticOf<T>>& selection, const Problem& problem, const Row<T>& row, std::int64_t* order) {
  std::int64_t places_to_fill = problem.k - selection.count_sure;
  std::int64_t taken = 0;
  for (std::int64_t i = 0; i < problem.cols && taken < problem.k; ++i) {
    const auto value = directed_arithmetic<T, direction>(row[i]);
    if (!selection.fill_only && value >= selection.sure) {
      order[taken++] = i;
    } else if (value >= selection.fill && places_to_fill > 0) {
      order[taken++] = i;
      --places_to_fill;
    }
  }
}

/// Writes the values and indices of one row. `chosen` holds positions in output order.
template <class T, class Index>
void write_pairs(const Problem& problem, const Output& output, std::int64_t number, const Row<T>& row,
                 const std::int64_t* chosen) {
  for (std::int64_t i = 0; i < problem.k; ++i) {
    const std::int64_t at = number * problem.k + i;
    // Copy bits: loading and storing a signalling NaN as a floating-point value may change it.
    if (writes_values(problem)) static_cast<KeyOf<T>*>(output.values)[at] = bits_of(row[chosen[i]]);
    if (writes_indices(problem)) static_cast<Index*>(output.indices)[at] = static_cast<Index>(chosen[i]);
  }
}

template <class T>
void write(const Problem& problem, const Output& output, std::int64_t number, const Row<T>& row,
           const std::int64_t* chosen) {
  if (problem.form == Form::dense) {
    auto* dense = static_cast<KeyOf<T>*>(output.dense) + number * problem.cols;
    std::fill_n(dense, problem.cols, KeyOf<T>{});
    for (std::int64_t i = 0; i < problem.k; ++i) dense[chosen[i]] = bits_of(row[chosen[i]]);
  } else if (problem.form == Form::mask) {
    std::uint8_t* mask = output.mask + number * problem.cols;
    std::fill_n(mask, problem.cols, std::uint8_t{});
    for (std::int64_t i = 0; i < problem.k; ++i) mask[chosen[i]] = 1;
  } else {
    switch (problem.index_type) {
      case IndexType::i32: return write_pairs<T, std::int32_t>(problem, output, number, row, chosen);
      case IndexType::i64: return write_pairs<T, std::int64_t>(problem, output, number, row, chosen);
      case IndexType::u8: return write_pairs<T, std::uint8_t>(problem, output, number, row, chosen);
      case IndexType::u16: return write_pairs<T, std::uint16_t>(problem, output, number, row, chosen);
    }
  }
}

template <class T, Direction direction>
void select_row(const Problem& problem, const Row<T>& row, const Output& output, std::int64_t number,
                std::int64_t* order) {
  std::int32_t passes = 0;
  bool exact = true;
  if (bisects(problem) && all_finite(row, problem.cols)) {
    const auto selection = bisect<T, direction>(problem, row);
    passes = selection.passes;
    exact = !stops_early(problem);
    if (!exact) take<T, direction>(selection, problem, row, order);
  }
  if (exact) select_exactly<T, direction>(row, problem.cols, order);

  if (problem.order == Order::by_value) {
    std::sort(order, order + problem.k, [&row](std::int64_t a, std::int64_t b) {
      const auto key_a = directed_key<T, direction>(row[a]);
      const auto key_b = directed_key<T, direction>(row[b]);
      return key_a != key_b ? key_a > key_b : a < b;
    });
  } else {
    std::sort(order, order + problem.k);
  }

  write(problem, output, number, row, order);
  if (problem.passes) output.passes[number] = passes;
}

}  // namespace

std::size_t reference_scratch_bytes(const Problem& problem) noexcept {
  return bytes_of(problem.cols + 1, sizeof(std::int64_t));  // one extra, for alignment
}

void reference_rows(const Problem& problem, const void* input, const Output& output, std::int64_t begin,
                    std::int64_t end, void* scratch) noexcept {
  std::size_t room = reference_scratch_bytes(problem);
  auto* order = static_cast<std::int64_t*>(std::align(alignof(std::int64_t), 1, scratch, room));
  with_element_type(problem.dtype, [&]<class T>(T*) {
    with_direction(problem.direction, [&](auto tag) {
      for (std::int64_t row = begin; row < end; ++row) {
        const Row<T> elements{static_cast<const T*>(input) + row_start(problem, row), element_stride_of(problem)};
        select_row<T, decltype(tag)::value>(problem, elements, output, row, order);
      }
    });
  });
}

}  // namespace rtopk::core
