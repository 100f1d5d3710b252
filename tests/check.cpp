// Runs a selection with guarded memory and compares its output with the oracle.
#include "check.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <sstream>

#include "guarded_buffer.hpp"
#include "random.hpp"

namespace rtopk_test {
namespace {

using rtopk::Form;
using rtopk::Order;
using rtopk::Problem;

constexpr std::byte kPoison{0xa5};
/// Upper bound for the passes of any search. A bisection of doubles can halve an interval 2100 times.
constexpr std::int32_t kMaxSanePasses = 3000;

bool has_values(const Problem& p) { return p.form == Form::cbsr || (p.form == Form::pairs && p.values); }
bool has_indices(const Problem& p) { return p.form == Form::cbsr || (p.form == Form::pairs && p.indices); }

void append_index(std::vector<std::byte>& bytes, rtopk::IndexType type, std::int64_t index) {
  const auto put = [&](auto value) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  };
  switch (type) {
    case rtopk::IndexType::i32: put(static_cast<std::int32_t>(index)); break;
    case rtopk::IndexType::i64: put(index); break;
    case rtopk::IndexType::u8: put(static_cast<std::uint8_t>(index)); break;
    case rtopk::IndexType::u16: put(static_cast<std::uint16_t>(index)); break;
  }
}

std::string hex(const std::byte* bytes, std::size_t size) {
  std::string text = "0x";
  for (std::size_t i = size; i-- > 0;) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(bytes[i]) >> 4];
    text += kDigits[std::to_integer<unsigned>(bytes[i]) & 15u];
  }
  return text;
}

/// One output as rows of elements of `size` bytes.
struct Table {
  const char* what;
  const std::vector<std::byte>* expected;
  const std::vector<std::byte>* actual;
  std::int64_t width;
  std::size_t size;
};

std::string difference(const Table& table, std::int64_t row) {
  if (table.actual->size() != table.expected->size()) {
    return std::string(table.what) + " has " + std::to_string(table.actual->size()) + " bytes, expected " +
           std::to_string(table.expected->size());
  }
  const std::size_t begin = static_cast<std::size_t>(row * table.width) * table.size;
  for (std::int64_t i = 0; i < table.width; ++i) {
    const std::size_t at = begin + static_cast<std::size_t>(i) * table.size;
    if (std::memcmp(table.actual->data() + at, table.expected->data() + at, table.size) != 0) {
      return "row " + std::to_string(row) + ": " + table.what + "[" + std::to_string(i) + "] is " +
             hex(table.actual->data() + at, table.size) + ", expected " + hex(table.expected->data() + at, table.size);
    }
  }
  return "";
}

/// Sorts the k results of every row by index, or by the bits of the values if there are no indices: for runners that do
/// not promise an order.
Result normalised(const Problem& p, const Result& result) {
  Result sorted = result;
  const std::size_t value_size = has_values(p) ? rtopk::size_of(p.dtype) : 0;
  const std::size_t index_size = has_indices(p) ? rtopk::size_of(p.index_type) : 0;
  const auto k = static_cast<std::size_t>(p.k);
  for (std::size_t row = 0; row < static_cast<std::size_t>(p.rows); ++row) {
    std::vector<std::size_t> order(k);
    std::iota(order.begin(), order.end(), row * k);
    const auto& keys = index_size > 0 ? result.indices : result.values;
    const std::size_t size = index_size > 0 ? index_size : value_size;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::memcmp(keys.data() + a * size, keys.data() + b * size, size) < 0;
    });
    for (std::size_t i = 0; i < k; ++i) {
      const std::size_t to = row * k + i;
      if (value_size > 0) {
        std::memcpy(sorted.values.data() + to * value_size, result.values.data() + order[i] * value_size, value_size);
      }
      if (index_size > 0) {
        std::memcpy(sorted.indices.data() + to * index_size, result.indices.data() + order[i] * index_size, index_size);
      }
    }
  }
  return sorted;
}

std::string passes_difference(const RowSelection& selection, std::int32_t passes) {
  if (selection.passes_defined) {
    return passes == selection.passes
               ? ""
               : "passes is " + std::to_string(passes) + ", expected " + std::to_string(selection.passes);
  }
  return passes >= 0 && passes <= kMaxSanePasses ? "" : "passes is " + std::to_string(passes) + ", which cannot be";
}

/// Copies the matrix to memory in the problem's layout. Gaps between elements and the guards hold bait.
std::unique_ptr<GuardedBuffer> lay_out(const Problem& p, const Matrix& matrix, const Layout& layout) {
  const std::size_t size = rtopk::size_of(p.dtype);
  const std::vector<std::byte> lure = bait(p.dtype, p.direction);
  const std::size_t bytes = static_cast<std::size_t>(input_elements(p)) * size;
  auto buffer = std::make_unique<GuardedBuffer>(bytes, layout.input_misalignment * size, lure);
  for (std::size_t i = 0; i < bytes; ++i) buffer->data()[i] = lure[i % size];
  const std::byte* from = matrix.bytes.data();
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const auto at = [&](std::int64_t column) {
      return buffer->data() + static_cast<std::size_t>(place_of(p, row, column)) * size;
    };
    if (p.element_stride <= 1) {
      std::memcpy(at(0), from, static_cast<std::size_t>(p.cols) * size);
      from += static_cast<std::size_t>(p.cols) * size;
      continue;
    }
    for (std::int64_t column = 0; column < p.cols; ++column, from += size) std::memcpy(at(column), from, size);
  }
  return buffer;
}

std::unique_ptr<GuardedBuffer> output_buffer(std::size_t bytes, std::size_t size, const Layout& layout) {
  auto buffer = std::make_unique<GuardedBuffer>(bytes, layout.output_misalignment * size);
  buffer->fill(kPoison);
  return buffer;
}

}  // namespace

std::string describe(const Problem& p) {
  std::ostringstream text;
  text << "rows=" << p.rows << " cols=" << p.cols << " k=" << p.k << " row_stride=" << p.row_stride
       << " element_stride=" << p.element_stride << " group_rows=" << p.group_rows << " group_stride=" << p.group_stride
       << ' ' << rtopk::name(p.dtype) << ' ' << rtopk::name(p.direction) << ' ' << rtopk::name(p.form) << ' '
       << rtopk::name(p.order) << " index_type=" << rtopk::name(p.index_type) << " values=" << p.values
       << " indices=" << p.indices << " passes=" << p.passes << " max_iter=" << p.max_iter
       << " rule=" << rtopk::name(p.rule) << " epsilon=" << p.epsilon << " search=" << rtopk::name(p.search);
  return text.str();
}

Problem tight(const Problem& problem) {
  Problem result = problem;
  result.row_stride = result.element_stride = result.group_rows = result.group_stride = 0;
  return result;
}

std::int64_t input_elements(const Problem& problem) {
  std::int64_t elements = 0;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    elements = std::max(elements, place_of(problem, row, problem.cols - 1) + 1);
  }
  return elements;
}

Matrix rows_in(const Matrix& memory, const Problem& problem) {
  Matrix matrix{problem.dtype, problem.rows, problem.cols, {}, memory.description + ", where strides say"};
  const auto size = static_cast<std::ptrdiff_t>(rtopk::size_of(problem.dtype));
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    for (std::int64_t column = 0; column < problem.cols; ++column) {
      const auto from = memory.bytes.begin() + place_of(problem, row, column) * size;
      matrix.bytes.insert(matrix.bytes.end(), from, from + size);
    }
  }
  return matrix;
}

void place(Problem& p, const Layout& layout) {
  if (layout.padding == 0 && layout.element_gap == 0 && !layout.columns && layout.group_rows == 0) return;
  const std::int64_t of_group = layout.group_rows == 0 ? p.rows : std::min(p.rows, layout.group_rows);
  if (layout.columns) {
    p.element_stride = std::max<std::int64_t>(of_group + layout.padding, 2);
    p.row_stride = 1;
  } else {
    p.element_stride = layout.element_gap == 0 ? 0 : layout.element_gap + 1;
    p.row_stride = layout.padding == 0 ? 0 : p.cols * (layout.element_gap + 1) + layout.padding;
  }
  if (layout.group_rows == 0) return;
  p.group_rows = layout.group_rows;
  const std::int64_t pitch = p.row_stride == 0 ? p.cols * (layout.element_gap + 1) : p.row_stride;
  p.group_stride = (layout.columns ? p.cols * p.element_stride : of_group * pitch) + layout.padding;
}

Problem problem_for(const Matrix& matrix, std::int64_t k) {
  Problem problem;
  problem.rows = matrix.rows;
  problem.cols = matrix.cols;
  problem.k = k;
  problem.dtype = matrix.dtype;
  return problem;
}

Result render(const Problem& p, const Matrix& matrix, const std::vector<RowSelection>& selections) {
  Result result;
  const std::size_t size = rtopk::size_of(p.dtype);
  const auto cols = static_cast<std::size_t>(p.cols);
  if (p.form == Form::dense) result.dense.resize(matrix.bytes.size());
  if (p.form == Form::mask) result.mask.resize(static_cast<std::size_t>(p.rows) * cols);
  for (std::size_t row = 0; row < selections.size(); ++row) {
    const RowSelection& selection = selections[row];
    for (const std::int64_t column : p.order == Order::by_value ? selection.by_value : selection.by_index) {
      const std::size_t at = row * cols + static_cast<std::size_t>(column);
      const auto element = matrix.bytes.begin() + static_cast<std::ptrdiff_t>(at * size);
      if (has_values(p))
        result.values.insert(result.values.end(), element, element + static_cast<std::ptrdiff_t>(size));
      if (has_indices(p)) append_index(result.indices, p.index_type, column);
      if (p.form == Form::dense) std::memcpy(result.dense.data() + at * size, matrix.bytes.data() + at * size, size);
      if (p.form == Form::mask) result.mask[at] = std::byte{1};
    }
    if (p.passes) result.passes.push_back(selection.passes);
  }
  return result;
}

std::string compare(const Problem& p, const std::vector<RowSelection>& selections, const Result& expected,
                    const Result& actual, bool unsorted_is_ascending) {
  if (p.order == Order::unsorted && !unsorted_is_ascending && (has_values(p) || has_indices(p))) {
    const Result expected_sorted = normalised(p, expected);
    const Result actual_sorted = normalised(p, actual);
    return compare(p, selections, expected_sorted, actual_sorted, true);
  }
  const std::size_t size = rtopk::size_of(p.dtype);
  const Table tables[] = {
      {"indices", &expected.indices, &actual.indices, has_indices(p) ? p.k : 0, rtopk::size_of(p.index_type)},
      {"values", &expected.values, &actual.values, has_values(p) ? p.k : 0, size},
      {"dense", &expected.dense, &actual.dense, p.form == Form::dense ? p.cols : 0, size},
      {"mask", &expected.mask, &actual.mask, p.form == Form::mask ? p.cols : 0, 1},
  };
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (const Table& table : tables) {
      if (std::string found = difference(table, row); !found.empty()) return found;
    }
    if (!p.passes) continue;
    const auto at = static_cast<std::size_t>(row);
    const std::string found = passes_difference(selections[at], actual.passes[at]);
    if (!found.empty()) return "row " + std::to_string(row) + ": " + found;
  }
  return "";
}

std::string check(const Runner& runner, const Problem& problem, const Matrix& matrix,
                  const std::vector<RowSelection>& selections, const Layout& layout) {
  Problem p = problem;
  place(p, layout);
  if (!runner.takes(p)) return "";
  const Result expected = render(p, matrix, selections);

  const auto input = lay_out(p, matrix, layout);
  const std::vector<std::byte> before = input->copy();
  const std::size_t size = rtopk::size_of(p.dtype);
  const auto values = output_buffer(expected.values.size(), size, layout);
  const auto indices = output_buffer(expected.indices.size(), rtopk::size_of(p.index_type), layout);
  const auto dense = output_buffer(expected.dense.size(), size, layout);
  const auto mask = output_buffer(expected.mask.size(), 1, layout);
  const auto passes = output_buffer(expected.passes.size() * 4, 4, layout);

  Call call;
  call.problem = p;
  call.input = input->bytes();
  if (has_values(p)) call.values = values->bytes();
  if (has_indices(p)) call.indices = indices->bytes();
  if (p.form == Form::dense) call.dense = dense->bytes();
  if (p.form == Form::mask) call.mask = mask->bytes();
  if (p.passes) call.passes = passes->bytes();
  call.threads = layout.threads;
  call.executor = layout.executor;
  call.workspace_misalignment = layout.workspace_misalignment;
  std::string wrong = runner.run(call);

  const std::pair<const char*, const GuardedBuffer*> guarded[] = {
      {"input", input.get()}, {"values", values.get()}, {"indices", indices.get()},
      {"dense", dense.get()}, {"mask", mask.get()},     {"passes", passes.get()},
  };
  for (const auto& [what, buffer] : guarded) {
    if (!wrong.empty()) break;
    const std::string damage = buffer->damage();
    if (!damage.empty()) wrong = std::string("out of bounds of ") + what + ": " + damage;
  }
  if (wrong.empty() && input->copy() != before) wrong = "the input was changed";
  if (wrong.empty()) {
    Result actual{values->copy(), indices->copy(), dense->copy(), mask->copy(), {}};
    actual.passes.resize(expected.passes.size());
    if (!actual.passes.empty()) std::memcpy(actual.passes.data(), passes->data(), passes->size());
    wrong = compare(p, selections, expected, actual, runner.unsorted_is_ascending());
  }
  if (wrong.empty()) return "";
  std::ostringstream text;
  text << wrong << "\n  runner: " << runner.name() << "\n  problem: " << describe(p)
       << "\n  matrix: " << matrix.description << "\n  threads=" << layout.threads
       << " executor=" << (layout.executor != nullptr ? "custom" : "own")
       << " input_misalignment=" << layout.input_misalignment << " output_misalignment=" << layout.output_misalignment
       << "\n  repeat with RTOPK_TEST_SEED=" << seed() << " RTOPK_TEST_SCALE=" << scale() << '\n';
  return text.str();
}

std::string check_everywhere(const Problem& problem, const Matrix& matrix, const Layout& layout) {
  const std::vector<RowSelection> selections = select(tight(problem), matrix.bytes.data());
  for (const auto& runner : runners()) {
    runner->activate();
    if (std::string wrong = check(*runner, problem, matrix, selections, layout); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace rtopk_test
