// Runs a selection with guarded memory and compares its output with the oracle.
#include "check.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <sstream>

#include "encoding.hpp"
#include "guarded_buffer.hpp"
#include "random.hpp"

namespace rtopk_test {
namespace {

using rtopk::ArrayType;
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

/// memcmp, which sanitizers need little time for; the loop of operator== is looked at byte by byte.
bool same(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

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

/// Copies the elements of all rows to memory in the problem's layout. Everything else there, and the guards, hold bait.
std::unique_ptr<GuardedBuffer> lay_out(const Problem& p, const Matrix& matrix,
                                       const std::vector<RowSelection>& selections, const Layout& layout) {
  const std::size_t size = rtopk::size_of(p.dtype);
  const std::vector<std::byte> lure = bait(p.dtype, p.direction, p.magnitude);
  const std::size_t bytes = static_cast<std::size_t>(input_elements(p)) * size;
  auto buffer = std::make_unique<GuardedBuffer>(bytes, layout.input_misalignment * size, lure);
  buffer->fill_like_guards();
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const RowSelection& own = selections[static_cast<std::size_t>(row)];
    const auto copy = [&](std::int64_t index, std::int64_t count) {
      const std::int64_t from = is_flat(p) ? index : row * p.cols + index;
      const std::int64_t to = is_flat(p) ? index : place_of(p, row, index);
      std::memcpy(buffer->data() + static_cast<std::size_t>(to) * size,
                  matrix.bytes.data() + static_cast<std::size_t>(from) * size, static_cast<std::size_t>(count) * size);
    };
    if (own.length == 0) continue;
    if (p.element_stride <= 1) {
      copy(own.start, own.length);
      continue;
    }
    for (std::int64_t index = own.start; index < own.start + own.length; ++index) copy(index, 1);
  }
  return buffer;
}

std::unique_ptr<GuardedBuffer> output_buffer(std::size_t bytes, std::size_t size, const Layout& layout) {
  auto buffer = std::make_unique<GuardedBuffer>(bytes, layout.output_misalignment * size);
  buffer->fill(kPoison);
  return buffer;
}

std::unique_ptr<GuardedBuffer> array_buffer(const std::vector<std::int64_t>& numbers, ArrayType type,
                                            const Layout& layout) {
  const Bytes bytes = encode(numbers, type);
  auto buffer = std::make_unique<GuardedBuffer>(bytes.size(), layout.output_misalignment * rtopk::size_of(type));
  if (!bytes.empty()) std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return buffer;
}

/// The memory of a call between guards, and the result that it must have.
class Trial {
 public:
  Trial(const Problem& p, const Matrix& matrix, const RowNumbers& numbers, const std::vector<RowSelection>& selections,
        const Layout& layout)
      : selections_(selections), expected_(render(p, matrix, selections, numbers)) {
    const std::size_t size = rtopk::size_of(p.dtype);
    call_.problem = p;
    call_.input = read("input", lay_out(p, matrix, selections, layout));
    call_.lengths = read("lengths", array_buffer(numbers.lengths, p.ragged.lengths, layout));
    call_.starts = read("starts", array_buffer(numbers.starts, p.ragged.starts, layout));
    call_.offsets = read("offsets", array_buffer(numbers.offsets, p.ragged.offsets, layout));
    call_.row_k = read("k of rows", array_buffer(numbers.k, p.ragged.k, layout));
    call_.map = read("map", array_buffer(numbers.map, p.index_map.type, layout));
    call_.table_of = read("table_of", array_buffer(numbers.table_of, p.index_map.table_of, layout));
    const auto written = [&](const char* what, std::size_t bytes, std::size_t element) {
      parts_.push_back({what, output_buffer(bytes, element, layout), {}});
      return parts_.back().memory->bytes();
    };
    call_.values = written("values", expected_.values.size(), size);
    call_.indices = written("indices", expected_.indices.size(), rtopk::size_of(p.index_type));
    call_.dense = written("dense", expected_.dense.size(), size);
    call_.mask = written("mask", expected_.mask.size(), 1);
    call_.passes = written("passes", expected_.passes.size() * 4, 4);
    call_.thresholds = written("thresholds", expected_.thresholds.size(), size);
    call_.threads = layout.threads;
    call_.executor = layout.executor;
    call_.workspace_misalignment = layout.workspace_misalignment;
    call_.workspace_fill = layout.workspace_fill;
  }

  [[nodiscard]] Call& call() { return call_; }

  /// What is wrong with the memory after the run; empty if nothing is.
  [[nodiscard]] std::string verdict(bool unsorted_is_ascending) const {
    for (const Part& part : parts_) {
      const std::string damage = part.memory->damage();
      if (!damage.empty()) return std::string("out of bounds of ") + part.what + ": " + damage;
    }
    for (const Part& part : parts_) {
      if (part.before && !same(part.memory->copy(), *part.before))
        return "the " + std::string(part.what) + " was changed";
    }
    const auto copy = [](std::span<const std::byte> bytes) {
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
    Result actual{copy(call_.values),    copy(call_.indices), copy(call_.dense), copy(call_.mask), {},
                  copy(call_.thresholds)};
    actual.passes.resize(expected_.passes.size());
    if (!actual.passes.empty()) std::memcpy(actual.passes.data(), call_.passes.data(), call_.passes.size());
    return compare(call_.problem, selections_, expected_, actual, unsorted_is_ascending);
  }

 private:
  struct Part {
    const char* what;
    std::unique_ptr<GuardedBuffer> memory;
    std::optional<std::vector<std::byte>> before;  ///< Of what must not change.
  };

  std::span<std::byte> read(const char* what, std::unique_ptr<GuardedBuffer> memory) {
    std::vector<std::byte> before = memory->copy();
    parts_.push_back({what, std::move(memory), std::move(before)});
    return parts_.back().memory->bytes();
  }

  const std::vector<RowSelection>& selections_;
  Result expected_;
  std::vector<Part> parts_;
  Call call_;
};

std::map<std::string, Coverage>& coverage() {
  static std::map<std::string, Coverage> all;
  return all;
}

bool takes(const Runner& runner, const Problem& problem) {
  const bool runs = runner.takes(problem);
  if (is_general(problem)) ++(runs ? coverage()[runner.name()].run : coverage()[runner.name()].left_out);
  return runs;
}

std::string repetition(const Runner& runner, const Problem& p, const Matrix& matrix, const Layout& layout) {
  std::ostringstream text;
  text << "\n  runner: " << runner.name() << "\n  problem: " << describe(p) << "\n  matrix: " << matrix.description
       << "\n  threads=" << layout.threads << " executor=" << (layout.executor != nullptr ? "custom" : "own")
       << " input_misalignment=" << layout.input_misalignment << " output_misalignment=" << layout.output_misalignment
       << "\n  repeat with RTOPK_TEST_SEED=" << seed() << " RTOPK_TEST_SCALE=" << scale() << '\n';
  return text.str();
}

/// The arrays of one row, for the message of a failure.
std::string describe_rows(const Problem& p, const RowNumbers& numbers) {
  if (!is_general(p)) return "";
  std::ostringstream text;
  const auto list = [&](const char* what, const std::vector<std::int64_t>& array) {
    constexpr std::size_t kShown = 40;
    if (array.empty()) return;
    text << "\n  " << what << ':';
    for (std::size_t i = 0; i < std::min(array.size(), kShown); ++i) text << ' ' << array[i];
    if (array.size() > kShown) text << " ... (" << array.size() << ')';
  };
  list("lengths", numbers.lengths);
  list("starts", numbers.starts);
  list("offsets", numbers.offsets);
  list("k of rows", numbers.k);
  list("table_of", numbers.table_of);
  return text.str();
}

}  // namespace

const std::map<std::string, Coverage>& general_coverage() { return coverage(); }

std::string describe(const Problem& p) {
  std::ostringstream text;
  text << "rows=" << p.rows << " cols=" << p.cols << " k=" << p.k << " row_stride=" << p.row_stride
       << " element_stride=" << p.element_stride << " group_rows=" << p.group_rows << " group_stride=" << p.group_stride
       << ' ' << rtopk::name(p.dtype) << ' ' << rtopk::name(p.direction) << ' ' << rtopk::name(p.form) << ' '
       << rtopk::name(p.order) << " index_type=" << rtopk::name(p.index_type) << " values=" << p.values
       << " indices=" << p.indices << " passes=" << p.passes << " max_iter=" << p.max_iter
       << " rule=" << rtopk::name(p.rule) << " epsilon=" << p.epsilon << " search=" << rtopk::name(p.search);
  if (!is_general(p)) return text.str();
  text << " magnitude=" << p.magnitude << " thresholds=" << p.thresholds << " lengths=" << name(p.ragged.lengths)
       << " starts=" << name(p.ragged.starts) << " offsets=" << name(p.ragged.offsets) << " row_k=" << name(p.ragged.k)
       << " elements=" << p.ragged.elements << " index_map=" << name(p.index_map.kind) << ',' << name(p.index_map.type)
       << " stride=" << p.index_map.stride << " pages=" << p.index_map.pages << " page_size=" << p.index_map.page_size
       << " tables=" << p.index_map.tables << " table_of=" << name(p.index_map.table_of);
  return text.str();
}

Problem tight(const Problem& problem) {
  Problem result = problem;
  result.row_stride = result.element_stride = result.group_rows = result.group_stride = 0;
  return result;
}

std::int64_t input_elements(const Problem& problem) {
  if (is_flat(problem)) return problem.ragged.elements;
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

void place(Problem& p, const Layout& wanted) {
  Layout layout = wanted;
  if (p.ragged != rtopk::Ragged{} || p.index_map != rtopk::IndexMap{}) {
    layout.element_gap = layout.group_rows = 0;
    layout.columns = false;
  }
  if (is_flat(p)) layout.padding = 0;
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

Result render(const Problem& p, const Matrix& matrix, const std::vector<RowSelection>& selections,
              const RowNumbers& numbers) {
  Result result;
  const std::size_t size = rtopk::size_of(p.dtype);
  const auto cols = static_cast<std::size_t>(p.cols);
  const auto append = [&](std::vector<std::byte>& bytes, const void* element) {
    const auto* from = static_cast<const std::byte*>(element);
    bytes.insert(bytes.end(), from, from + size);
  };
  const std::uint64_t losing = losing_bits(p);  // little-endian, as every machine of these tests
  if (p.form == Form::dense) result.dense.resize(matrix.bytes.size());
  if (p.form == Form::mask) result.mask.resize(static_cast<std::size_t>(p.rows) * cols);
  for (std::size_t row = 0; row < selections.size(); ++row) {
    const RowSelection& selection = selections[row];
    const auto place = [&](std::int64_t index) {
      return (is_flat(p) ? 0 : row * cols) + static_cast<std::size_t>(index);
    };
    for (const std::int64_t index : p.order == Order::by_value ? selection.by_value : selection.by_index) {
      const std::size_t at = place(index);
      const std::byte* element = matrix.bytes.data() + at * size;
      if (has_values(p)) append(result.values, element);
      if (has_indices(p)) {
        append_index(result.indices, p.index_type,
                     written_index(p, numbers, static_cast<std::int64_t>(row), selection.start, index));
      }
      if (p.form == Form::dense) std::memcpy(result.dense.data() + at * size, element, size);
      if (p.form == Form::mask) result.mask[at] = std::byte{1};
    }
    for (auto missing = std::ssize(selection.by_value); missing < p.k; ++missing) {
      if (has_values(p)) append(result.values, &losing);
      if (has_indices(p)) append_index(result.indices, p.index_type, -1);
    }
    if (p.passes) result.passes.push_back(selection.passes);
    if (p.thresholds) {
      append(result.thresholds, selection.is_short ? static_cast<const void*>(&losing)
                                                   : matrix.bytes.data() + place(selection.by_value.back()) * size);
    }
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
      {"thresholds", &expected.thresholds, &actual.thresholds, p.thresholds ? 1 : 0, size},
  };
  std::vector<Table> different;
  for (const Table& table : tables) {
    if (!same(*table.expected, *table.actual)) different.push_back(table);
  }
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (const Table& table : different) {
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
                  const std::vector<RowSelection>& selections, const Layout& layout, const RowNumbers& numbers) {
  Problem p = problem;
  place(p, layout);
  if (!takes(runner, p)) return "";
  Trial trial(p, matrix, numbers, selections, layout);
  std::string wrong = runner.run(trial.call());
  if (wrong.empty()) wrong = trial.verdict(runner.unsorted_is_ascending());
  if (wrong.empty()) return "";
  return wrong + repetition(runner, p, matrix, layout) + describe_rows(p, numbers);
}

std::string check_everywhere(const Problem& problem, const Matrix& matrix, const Layout& layout,
                             const RowNumbers& numbers) {
  const std::vector<RowSelection> selections = select(tight(problem), matrix.bytes.data(), numbers);
  for (const auto& runner : runners()) {
    runner->activate();
    if (std::string wrong = check(*runner, problem, matrix, selections, layout, numbers); !wrong.empty()) return wrong;
  }
  return "";
}

std::string check_everywhere(const Problem& problem, const std::vector<CallData>& calls, const Layout& layout) {
  Problem p = problem;
  place(p, layout);
  std::vector<std::vector<RowSelection>> selections;
  for (const CallData& data : calls) {
    selections.push_back(select(tight(problem), data.matrix.bytes.data(), data.numbers));
  }
  for (const auto& runner : runners()) {
    if (!takes(*runner, p)) continue;
    std::vector<std::unique_ptr<Trial>> trials;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      trials.push_back(std::make_unique<Trial>(p, calls[i].matrix, calls[i].numbers, selections[i], layout));
      if (i > 0) trials[i - 1]->call().next = &trials[i]->call();
    }
    runner->activate();
    std::string wrong = runner->run(trials.front()->call());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (wrong.empty()) wrong = trials[i]->verdict(runner->unsorted_is_ascending());
      if (wrong.empty()) continue;
      return "call " + std::to_string(i) + ": " + wrong + repetition(*runner, p, calls[i].matrix, layout) +
             describe_rows(p, calls[i].numbers);
    }
  }
  return "";
}

}  // namespace rtopk_test
