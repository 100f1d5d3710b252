// Row lengths and k: all small ones, and those around the limits between families.
#include "conformance.hpp"

namespace rtopk_test {
namespace {

class Sizes : public DTypeTest {};

/// One thread half of the time: with more, each takes one row at a time.
Layout layout_of_groups(Random& random) {
  Layout layout = random_layout(random);
  if (random.coin()) layout.threads = 1;
  return layout;
}

TEST_P(Sizes, EveryKOfEveryShortRow) {
  Random random = random_for(10);
  for (std::int64_t cols = 1; cols <= 70; ++cols) {
    const auto shapes = shapes_for(cols);
    for (std::int64_t k = 1; k <= cols; ++k) {
      for (const rtopk::Direction direction : kDirections) {
        if (left_out(random)) continue;
        const Matrix matrix = make_mixed_matrix(GetParam(), 3, cols, k, random);
        rtopk::Problem problem = problem_for(matrix, k);
        problem.direction = direction;
        random.pick(shapes).apply(problem);
        if (!conforms(problem, matrix, random_layout(random))) return;
      }
    }
  }
}

// Families that select from several rows at a time: groups of every size, and incomplete groups at the end of the
// matrix and at the end of a thread's rows.
TEST_P(Sizes, ManyShortRows) {
  Random random = random_for(13);
  for (std::int64_t cols = 1; cols <= 66; ++cols) {
    for (const rtopk::Direction direction : kDirections) {
      const std::int64_t k = random_k(cols, random);
      const Matrix matrix = make_mixed_matrix(GetParam(), random.between(1, 200), cols, k, random);
      rtopk::Problem problem = problem_for(matrix, k);
      problem.direction = direction;
      problem.passes = random.coin();
      random.pick(shapes_for(cols)).apply(problem);
      if (!conforms(problem, matrix, layout_of_groups(random))) return;
    }
  }
}

// The same for searches that stop early, up to the longest rows that are searched in vector lanes.
TEST_P(Sizes, ManyShortRowsStoppedEarly) {
  Random random = random_for(15);
  std::vector<std::int64_t> lengths = {95, 96, 97, 127, 128, 129, 191, 192, 193};
  for (std::int64_t cols = 1; cols <= 66; ++cols) lengths.push_back(cols);
  for (const std::int64_t cols : lengths) {
    const std::int64_t k = random_k(cols, random);
    const Matrix matrix = make_mixed_matrix(GetParam(), random.between(1, 200), cols, k, random);
    rtopk::Problem problem = problem_for(matrix, k);
    problem.direction = random.pick(kDirections);
    problem.passes = random.coin();
    problem.search = random.coin() ? rtopk::Search::bisection : rtopk::Search::fast;
    problem.max_iter = static_cast<std::int32_t>(random.between(1, 40));
    problem.rule = random.coin() ? rtopk::Rule::printed : rtopk::Rule::threshold_first;
    random.pick(shapes_for(cols)).apply(problem);
    if (!conforms(problem, matrix, layout_of_groups(random))) return;
  }
}

TEST_P(Sizes, EveryLimitOfEveryShortRow) {
  Random random = random_for(11);
  for (std::int64_t cols = 1; cols <= 70; ++cols) {
    for (const Limits& limits : kLimits) {
      if (left_out(random)) continue;
      const std::int64_t k = random_k(cols, random);
      const Matrix matrix = make_mixed_matrix(GetParam(), 7, cols, k, random);
      rtopk::Problem problem = problem_for(matrix, k);
      problem.direction = random.pick(kDirections);
      problem.passes = true;
      limits.apply(problem);
      if (!conforms(problem, matrix, random_layout(random))) return;
    }
  }
}

TEST_P(Sizes, LongerRows) {
  Random random = random_for(12);
  for (const std::int64_t cols :
       {127, 128, 129, 255, 256, 257, 511, 512, 513, 768, 1000, 1023, 1024, 1025, 2047, 2048, 2049}) {
    const auto shapes = shapes_for(cols);
    std::vector<std::int64_t> ks = {1, 2, 3, 8, 31, 32, 33, 64, 100, cols / 2, cols - 2, cols - 1, cols};
    for (std::int64_t extra = scaled(6); extra > 0; --extra) ks.push_back(random.between(1, cols));
    for (const std::int64_t k : ks) {
      if (left_out(random)) continue;
      const Matrix matrix = make_mixed_matrix(GetParam(), 4, cols, k, random);
      rtopk::Problem problem = problem_for(matrix, k);
      problem.direction = random.pick(kDirections);
      problem.passes = random.coin();
      random.pick(kLimits).apply(problem);
      random.pick(shapes).apply(problem);
      if (!conforms(problem, matrix, random_layout(random))) return;
    }
  }
}

TEST_P(Sizes, LongRows) {
  Random random = random_for(13);
  for (const std::int64_t cols :
       {4095, 4096, 4097, 8191, 8192, 8193, 10000, 16384, 32768, 65535, 65536, 65537, 100003, 200000}) {
    const auto shapes = shapes_for(cols);
    std::vector<std::int64_t> ks = {1, 32, 512, 2000, cols / 2, cols - 1, cols};
    for (std::int64_t extra = scaled(3); extra > 0; --extra) ks.push_back(random.between(1, cols));
    for (const std::int64_t k : ks) {
      if (left_out(random)) continue;
      const std::int64_t rows = cols > 20000 ? 1 : 2;
      const Matrix matrix = make_mixed_matrix(GetParam(), rows, cols, k, random);
      rtopk::Problem problem = problem_for(matrix, k);
      problem.direction = random.pick(kDirections);
      problem.passes = random.coin();
      if (random.coin()) random.pick(kLimits).apply(problem);
      random.pick(shapes).apply(problem);
      if (!conforms(problem, matrix, random_layout(random))) return;
    }
  }
}

// Counters in 16-bit lanes overflow here if they are not flushed in time: almost all elements are on the same side of
// the threshold.
TEST_P(Sizes, LongerThanALaneCanCount) {
  Random random = random_for(14);
  for (const std::int64_t cols : {280000, 530000, 1100000}) {
    if (rtopk::size_of(GetParam()) > 2 && cols > 280000) break;
    for (const std::int64_t k : {std::int64_t{3}, cols - 3}) {
      const Matrix matrix = make_matrix(GetParam(), 1, cols, k, Pattern::one_outlier, random);
      for (const Limits& limits : {kLimits[0], kLimits[4]}) {
        if (left_out(random)) continue;
        rtopk::Problem problem = problem_for(matrix, k);
        problem.direction = random.pick(kDirections);
        problem.index_type = rtopk::IndexType::i32;
        problem.passes = true;
        limits.apply(problem);
        if (!conforms(problem, matrix)) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, Sizes, testing::ValuesIn(kDTypes), dtype_name);

}  // namespace
}  // namespace rtopk_test
