// Rows that do not lie side by side, or whose elements do not: columns of matrices, groups of rows, rows that share elements.
#include "conformance.hpp"

#include <algorithm>
#include <cstring>

namespace rtopk_test {
namespace {

class Layouts : public DTypeTest {
 protected:
  /// Selects from `memory` as it is, on every runner.
  bool conforms_in(const rtopk::Problem& problem, std::vector<std::byte>& memory) {
    Matrix matrix{problem.dtype, problem.rows, problem.cols, {}, "where its strides say"};
    const std::size_t size = rtopk::size_of(problem.dtype);
    for (std::int64_t row = 0; row < problem.rows; ++row) {
      for (std::int64_t column = 0; column < problem.cols; ++column) {
        const auto at = static_cast<std::size_t>(place_of(problem, row, column)) * size;
        matrix.bytes.insert(matrix.bytes.end(), memory.begin() + static_cast<std::ptrdiff_t>(at),
                            memory.begin() + static_cast<std::ptrdiff_t>(at + size));
      }
    }
    const std::vector<RowSelection> selections = select(problem, memory.data());
    const Result expected = render(problem, matrix, selections);
    for (const auto& runner : runners()) {
      if (!runner->takes(problem)) continue;
      runner->activate();
      Result actual;
      actual.values.resize(expected.values.size());
      actual.indices.resize(expected.indices.size());
      Call call;
      call.problem = problem;
      call.input = memory;
      call.values = actual.values;
      call.indices = actual.indices;
      std::string wrong = runner->run(call);
      if (wrong.empty()) {
        wrong = compare(problem, selections, expected, actual, runner->unsorted_is_ascending());
      }
      if (wrong.empty()) continue;
      ADD_FAILURE() << wrong << "\n  runner: " << runner->name() << "\n  problem: " << describe(problem);
      return false;
    }
    return true;
  }
};

// Every remainder of what is copied together: rows of a cache line, rows and columns of a vector.
TEST_P(Layouts, EveryNumberOfColumns) {
  Random random = random_for(40);
  for (std::int64_t rows = 1; rows <= 70; ++rows) {
    for (const std::int64_t cols : {1, 2, 3, 5, 8, 17, 33, 100, 500}) {
      if (left_out(random)) continue;
      const std::int64_t k = random_k(cols, random);
      const Matrix matrix = make_mixed_matrix(GetParam(), rows, cols, k, random);
      rtopk::Problem problem = problem_for(matrix, k);
      problem.direction = random.pick(kDirections);
      random.pick(shapes_for(cols)).apply(problem);
      if (cols > 100) random.pick(kLimits).apply(problem);
      Layout layout;
      layout.columns = true;
      layout.padding = random.between(0, 2);
      layout.group_rows = random.coin() ? 0 : random.between(1, 40);
      layout.input_misalignment = static_cast<std::size_t>(random.between(0, 15));
      layout.threads = random.coin() ? 1 : 3;
      if (!conforms(problem, matrix, layout)) return;
    }
  }
}

// Input is only read, so rows and groups of it may lie in each other.
TEST_P(Layouts, RowsMayShareElements) {
  Random random = random_for(41);
  for (std::int64_t left = scaled(300); left > 0; --left) {
    rtopk::Problem problem;
    problem.dtype = GetParam();
    problem.rows = random.between(1, 40);
    problem.cols = random.between(1, 60);
    problem.k = random_k(problem.cols, random);
    problem.order = random.pick(kOrders);
    problem.element_stride = random.between(0, 5);
    if (problem.element_stride > 1) {
      problem.row_stride = random.between(0, 7);
    } else if (random.coin()) {
      problem.row_stride = problem.cols + random.between(0, 7);
    }
    if (random.coin()) {
      problem.group_rows = random.between(1, 9);
      problem.group_stride = random.coin() ? 0 : random.between(0, 300);
    }
    std::int64_t elements = 0;
    for (std::int64_t row = 0; row < problem.rows; ++row) {
      elements = std::max(elements, place_of(problem, row, problem.cols - 1) + 1);
    }
    Matrix memory = make_mixed_matrix(problem.dtype, 1, elements, std::min(problem.k, elements), random);
    if (!conforms_in(problem, memory.bytes)) return;
  }
}

// So long that fewer rows are copied at a time than share a cache line.
TEST_P(Layouts, LongColumns) {
  if (rtopk::size_of(GetParam()) < 8) GTEST_SKIP() << "the same code, and more rows would be needed";
  Random random = random_for(42);
  const Matrix matrix = make_mixed_matrix(GetParam(), 8, 300000, 20, random);
  Layout layout;
  layout.columns = true;
  conforms(problem_for(matrix, 20), matrix, layout);
}

INSTANTIATE_TEST_SUITE_P(Conformance, Layouts, testing::ValuesIn(kDTypes), dtype_name);

}  // namespace
}  // namespace rtopk_test
