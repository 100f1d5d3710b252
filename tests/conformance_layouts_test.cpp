// Rows or elements that are not contiguous: columns of matrices, groups of rows, rows that share elements.
#include "conformance.hpp"

namespace rtopk_test {
namespace {

class Layouts : public DTypeTest {};

// Every remainder of the copy's blocks: rows per cache line, rows and columns per vector.
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

// A plan does not know the address of the first row. Some kernels have another layout for rows off alignment, and others
// take over where that has none.
TEST_P(Layouts, EveryAddressOfTheFirstRow) {
  Random random = random_for(43);
  for (const std::int64_t cols : {64, 256, 1000, 1920, 1984, 2000, 2048, 4096}) {
    for (std::size_t misalignment = 0; misalignment < 8; ++misalignment) {
      if (left_out(random)) continue;
      const std::int64_t k = random_k(cols, random);
      const Matrix matrix = make_mixed_matrix(GetParam(), random.between(1, 9), cols, k, random);
      rtopk::Problem problem = problem_for(matrix, k);
      problem.direction = random.pick(kDirections);
      random.pick(shapes_for(cols)).apply(problem);
      Layout layout;
      layout.input_misalignment = misalignment;
      if (!conforms(problem, matrix, layout)) return;
    }
  }
}

// Input is only read, so rows and groups may overlap.
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
    const Matrix memory = make_mixed_matrix(problem.dtype, 1, input_elements(problem), problem.k, random);
    if (!conforms(problem, rows_in(memory, problem))) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, Layouts, testing::ValuesIn(kDTypes), dtype_name);

// Rows so long that fewer of them are copied at a time than share a cache line.
TEST(LongColumns, AreCopiedFewAtATime) {
  Random random(seed() + 42);
  const Matrix matrix = make_mixed_matrix(rtopk::DType::f64, 8, 300000, 20, random);
  Layout layout;
  layout.columns = true;
  EXPECT_EQ(check_everywhere(problem_for(matrix, 20), matrix, layout), "");
}

}  // namespace
}  // namespace rtopk_test
