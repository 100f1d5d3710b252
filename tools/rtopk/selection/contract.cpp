#include "selection/contract.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "selection/elements.hpp"
#include "terminal/failure.hpp"

namespace rtopk::tool {
namespace {

const void* advance(const void* base, std::int64_t count, std::size_t size) {
  if (base == nullptr) return nullptr;
  return static_cast<const std::byte*>(base) + static_cast<std::size_t>(count) * size;
}

}  // namespace

Results Results::after(const Problem& problem, std::int64_t rows) const noexcept {
  return {.values = advance(values, rows * problem.k, size_of(problem.dtype)),
          .indices = advance(indices, rows * problem.k, size_of(problem.index_type)),
          .dense = advance(dense, rows * problem.cols, size_of(problem.dtype)),
          .mask = advance(mask, rows * problem.cols, 1),
          .passes = advance(passes, rows, sizeof(std::int32_t))};
}

ContractChecker::ContractChecker(const Problem& problem) : problem_(problem) {
  exact_ = problem.max_iter == 0 && problem.epsilon == 0.0;
  // The contract fixes the number of passes of the paper's searches, not of the fast search.
  passes_are_fixed_ = problem.search == Search::bisection;

  Problem asked = problem;  // the reference gives the selected columns; the rest is checked here
  asked.rows = 1;
  asked.row_stride = asked.element_stride = asked.group_rows = asked.group_stride = 0;
  asked.order = Order::by_index;
  asked.form = Form::pairs;
  asked.index_type = IndexType::i64;
  asked.values = false;
  asked.indices = true;
  asked.passes = true;
  asked.device = {};
  require(make_plan(asked, Traits{}, Family::reference, plan_));
  workspace_.resize(plan_.workspace_bytes);
  expected_.resize(static_cast<std::size_t>(problem.k));
}

std::optional<Violation> ContractChecker::check(const void* input, std::int64_t rows, const Results& results) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const void* elements = advance(input, row * problem_.cols, size_of(problem_.dtype));
    const Results of_row = results.after(problem_, row);
    choose(elements);
    const std::int64_t passes = of_row.passes == nullptr ? 0 : load<std::int32_t>(of_row.passes, 0);
    std::string text = reason(elements, of_row, passes);
    if (!text.empty()) return Violation{row, std::move(text)};
  }
  return std::nullopt;
}

void ContractChecker::choose(const void* row) {
  const Output output{.indices = expected_.data(), .passes = &expected_passes_};
  require(run(plan_, row, output, {workspace_.data(), workspace_.size()}));
}

std::string ContractChecker::reason(const void* row, const Results& results, std::int64_t passes) {
  std::string text;
  if (results.indices != nullptr) {
    text = reason_for_indices(row, results);
  } else if (results.values != nullptr) {
    text = reason_for_values(row, results);
  } else {
    text = reason_for_columns(row, results);
  }
  if (text.empty() && results.passes != nullptr) {
    if (passes < 0) return fmt::format("its number of passes is {}", passes);
    if (passes_are_fixed_ && passes != expected_passes_) {
      return fmt::format("its number of passes is {}, the search takes {}", passes, expected_passes_);
    }
  }
  return text;
}

/// Pairs and CBSR: in range, distinct, the values are the input's, the right set, the right order.
std::string ContractChecker::reason_for_indices(const void* row, const Results& results) {
  found_.clear();
  for (std::int64_t i = 0; i < problem_.k; ++i) {
    const std::int64_t column = index_at(problem_.index_type, results.indices, i);
    if (column < 0 || column >= problem_.cols) {
      return fmt::format("index {} at position {} is out of range (a row has {} elements)", column, i, problem_.cols);
    }
    found_.push_back(column);
  }
  std::sort(found_.begin(), found_.end());
  const auto twice = std::adjacent_find(found_.begin(), found_.end());
  if (twice != found_.end()) return fmt::format("index {} is there twice", *twice);
  for (std::int64_t i = 0; i < problem_.k && results.values != nullptr; ++i) {
    const std::int64_t column = index_at(problem_.index_type, results.indices, i);
    if (bits_at(problem_.dtype, results.values, i) != bits_at(problem_.dtype, row, column)) {
      return fmt::format("value {} at position {} differs from the input's {}",
                         element_text(problem_.dtype, results.values, i), i, at(row, column));
    }
  }
  std::string text = reason_for_set(row);
  if (text.empty()) text = reason_for_order(row, results);
  return text;
}

/// Compares the ascending columns `found_` with `expected_`.
std::string ContractChecker::reason_for_set(const void* row) {
  std::vector<std::int64_t> left_out;
  std::vector<std::int64_t> wrong;
  std::set_difference(expected_.begin(), expected_.end(), found_.begin(), found_.end(), std::back_inserter(left_out));
  std::set_difference(found_.begin(), found_.end(), expected_.begin(), expected_.end(), std::back_inserter(wrong));
  if (wrong.empty()) return {};  // both have k members, so nothing is missing either
  if (!exact_) {
    return fmt::format("the selection with {} takes {}, not {}", mode(), at(row, left_out.front()),
                       at(row, wrong.front()));
  }
  // The clearest evidence: the best column that is missing and the worst one that was selected.
  const auto first_is_better = [&](std::int64_t a, std::int64_t b) { return in_order(row, a, b); };
  const std::int64_t missing = *std::min_element(left_out.begin(), left_out.end(), first_is_better);
  const std::int64_t extra = *std::max_element(wrong.begin(), wrong.end(), first_is_better);
  const double missing_value = element_at(problem_.dtype, row, missing);
  const double extra_value = element_at(problem_.dtype, row, extra);
  if (better(problem_.direction, missing_value, extra_value)) {
    return fmt::format("{} was left out but is {} than the selected {}", at(row, missing),
                       problem_.direction == Direction::largest ? "greater" : "smaller", at(row, extra));
  }
  return fmt::format("a tie did not go to the lowest index: {} was left out, {} was selected", at(row, missing),
                     at(row, extra));
}

std::string ContractChecker::reason_for_order(const void* row, const Results& results) const {
  if (problem_.order == Order::unsorted) return {};
  for (std::int64_t i = 1; i < problem_.k; ++i) {
    const std::int64_t a = index_at(problem_.index_type, results.indices, i - 1);
    const std::int64_t b = index_at(problem_.index_type, results.indices, i);
    if (problem_.order == Order::by_index && a > b) {
      return fmt::format("wrong order: index {} at position {} comes before index {}", a, i - 1, b);
    }
    if (problem_.order == Order::by_value && !in_order(row, a, b)) {
      return fmt::format("wrong order: {} at position {} comes before {}", at(row, a), i - 1, at(row, b));
    }
  }
  return {};
}

/// Values without indices: the input's bits of the expected columns, in the order that was asked for.
std::string ContractChecker::reason_for_values(const void* row, const Results& results) {
  std::vector<std::uint64_t> expected;
  std::vector<std::uint64_t> found;
  std::vector<std::int64_t> columns = expected_;
  if (problem_.order == Order::by_value) {
    std::sort(columns.begin(), columns.end(), [&](std::int64_t a, std::int64_t b) { return in_order(row, a, b); });
  }
  for (std::int64_t i = 0; i < problem_.k; ++i) {
    expected.push_back(bits_at(problem_.dtype, row, columns[static_cast<std::size_t>(i)]));
    found.push_back(bits_at(problem_.dtype, results.values, i));
  }
  if (problem_.order == Order::unsorted) {
    std::vector<std::uint64_t> expected_set = expected;
    std::vector<std::uint64_t> found_set = found;
    std::sort(expected_set.begin(), expected_set.end());
    std::sort(found_set.begin(), found_set.end());
    if (expected_set == found_set) return {};
    for (std::int64_t i = 0; i < problem_.k; ++i) {
      const auto left = std::find(expected_set.begin(), expected_set.end(), found[static_cast<std::size_t>(i)]);
      if (left == expected_set.end()) {
        return fmt::format("value {} at position {} is not among the selected ones",
                           element_text(problem_.dtype, results.values, i), i);
      }
      expected_set.erase(left);
    }
  }
  const auto differ = std::mismatch(expected.begin(), expected.end(), found.begin());
  if (differ.first == expected.end()) return {};
  const std::int64_t i = differ.first - expected.begin();
  return fmt::format("value {} at position {} should be {}", element_text(problem_.dtype, results.values, i), i,
                     at(row, columns[static_cast<std::size_t>(i)]));
}

/// Dense and mask: one element of the result for each column.
std::string ContractChecker::reason_for_columns(const void* row, const Results& results) const {
  auto next = expected_.begin();
  for (std::int64_t column = 0; column < problem_.cols; ++column) {
    const bool selected = next != expected_.end() && *next == column;
    if (selected) ++next;
    if (results.mask != nullptr) {
      const int found = load<std::uint8_t>(results.mask, column);
      if (found == (selected ? 1 : 0)) continue;
      if (found > 1) return fmt::format("the mask is {} at column {}, neither 0 nor 1", found, column);
      return fmt::format("{} {}", at(row, column), selected ? "should be selected" : "should not be selected");
    }
    const std::uint64_t wanted = selected ? bits_at(problem_.dtype, row, column) : 0;
    if (bits_at(problem_.dtype, results.dense, column) == wanted) continue;
    return fmt::format(
        "column {} holds {}, {}", column, element_text(problem_.dtype, results.dense, column),
        selected ? fmt::format("but was selected, with the input's {}", element_text(problem_.dtype, row, column))
                 : std::string("but was not selected and should be zero"));
  }
  return {};
}

/// Whether column a comes before column b by value, ties by ascending index.
bool ContractChecker::in_order(const void* row, std::int64_t a, std::int64_t b) const {
  const double value_a = element_at(problem_.dtype, row, a);
  const double value_b = element_at(problem_.dtype, row, b);
  if (better(problem_.direction, value_a, value_b)) return true;
  if (better(problem_.direction, value_b, value_a)) return false;
  return a < b;
}

std::string ContractChecker::at(const void* row, std::int64_t column) const {
  return fmt::format("{} at column {}", element_text(problem_.dtype, row, column), column);
}

std::string ContractChecker::mode() const {
  return problem_.max_iter > 0 ? fmt::format("max_iter {} ({})", problem_.max_iter, name(problem_.rule))
                               : fmt::format("epsilon {}", problem_.epsilon);
}

}  // namespace rtopk::tool
