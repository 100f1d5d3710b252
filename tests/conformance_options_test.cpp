// Every combination of the options that a problem has, on rows of every pattern.
#include "conformance.hpp"

namespace rtopk_test {
namespace {

struct Size {
  std::int64_t cols;
  std::int64_t k;
};

class Options : public DTypeTest {};

TEST_P(Options, EveryCombination) {
  Random random = random_for(1);
  // One size for each path of a backend: shorter than a vector, a few vectors, a long row.
  constexpr Size kSizes[] = {{5, 2}, {67, 9}, {256, 32}, {1500, 70}};
  for (const Size size : kSizes) {
    const Matrix matrix = make_mixed_matrix(GetParam(), kPatterns, size.cols, size.k, random);
    for (const rtopk::Direction direction : kDirections) {
      for (const Limits& limits : kLimits) {
        rtopk::Problem problem = problem_for(matrix, size.k);
        problem.direction = direction;
        problem.passes = true;
        limits.apply(problem);
        // The selection does not depend on the shape: ask the oracle once.
        const auto selections = select(problem, matrix.bytes.data());
        for (const Shape& shape : shapes_for(size.cols)) {
          if (left_out(random)) continue;
          shape.apply(problem);
          problem.passes = random.coin();
          const Layout layout = random_layout(random);
          for (const auto& runner : runners()) {
            runner->activate();
            ASSERT_EQ(check(*runner, problem, matrix, selections, layout), "");
          }
        }
      }
    }
  }
}

TEST_P(Options, EveryThreadCountAndRowCount) {
  Random random = random_for(2);
  for (const std::int64_t rows : {0, 1, 2, 3, 7, 65, 300}) {
    const Matrix matrix = make_mixed_matrix(GetParam(), rows, 96, 10, random);
    for (const std::int32_t threads : {1, 2, 3, 5, 64}) {
      rtopk::Problem problem = problem_for(matrix, 10);
      problem.passes = true;
      Layout layout;
      layout.threads = threads;
      if (!conforms(problem, matrix, layout)) return;
    }
  }
}

TEST_P(Options, EveryAlignmentOfInputAndOutput) {
  Random random = random_for(3);
  const Matrix matrix = make_mixed_matrix(GetParam(), 5, 133, 17, random);
  for (std::size_t misalignment = 0; misalignment < 64 / rtopk::size_of(GetParam()); ++misalignment) {
    for (const std::int64_t padding : {0, 1, 2, 7}) {
      for (const rtopk::Form form : {rtopk::Form::pairs, rtopk::Form::dense, rtopk::Form::mask}) {
        if (left_out(random)) continue;
        rtopk::Problem problem = problem_for(matrix, 17);
        problem.form = form;
        Layout layout;
        layout.padding = padding;
        layout.input_misalignment = misalignment;
        layout.output_misalignment = misalignment + 1;
        layout.workspace_misalignment = misalignment;
        if (!conforms(problem, matrix, layout)) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, Options, testing::ValuesIn(kDTypes), dtype_name);

}  // namespace
}  // namespace rtopk_test
