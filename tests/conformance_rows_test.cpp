// Every difficult pattern of rows, with every class of lengths and every search.
#include "conformance.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace rtopk_test {
namespace {

class Rows : public DTypeTest {};

TEST_P(Rows, EveryPattern) {
  Random random = random_for(20);
  for (int p = 0; p < kPatterns; ++p) {
    for (const std::int64_t cols : {2, 9, 40, 256, 1000, 5000}) {
      const auto shapes = shapes_for(cols);
      for (const std::int64_t k :
           {std::int64_t{1}, std::min<std::int64_t>(cols, 32), std::max<std::int64_t>(1, cols / 3), cols - 1}) {
        if (left_out(random)) continue;
        const Matrix matrix = make_matrix(GetParam(), 3, cols, k, static_cast<Pattern>(p), random);
        for (const rtopk::Direction direction : kDirections) {
          rtopk::Problem problem = problem_for(matrix, k);
          problem.direction = direction;
          random.pick(shapes).apply(problem);
          if (!conforms(problem, matrix, random_layout(random))) return;
        }
      }
    }
  }
}

TEST_P(Rows, EveryPatternStoppedEarly) {
  Random random = random_for(21);
  for (int p = 0; p < kPatterns; ++p) {
    for (const Limits& limits : kLimits) {
      for (const std::int64_t cols : {3, 33, 300, 2500}) {
        if (left_out(random) || (cols > 1000 && random.uniform() > 0.3)) continue;
        const std::int64_t k = random_k(cols, random);
        const Matrix matrix = make_matrix(GetParam(), 3, cols, k, static_cast<Pattern>(p), random);
        for (const rtopk::Direction direction : kDirections) {
          rtopk::Problem problem = problem_for(matrix, k);
          problem.direction = direction;
          problem.passes = true;
          limits.apply(problem);
          random.pick(shapes_for(cols)).apply(problem);
          if (!conforms(problem, matrix, random_layout(random))) return;
        }
      }
    }
  }
}

// Long rows are often read once with a guess of the kth value. These rows make such guesses wrong: their first part
// differs from the rest.
TEST_P(Rows, TheBeginningMisleads) {
  Random random = random_for(22);
  const std::int64_t cols = 20000;
  for (const double beginning : {-100.0, 0.0, 100.0}) {
    for (const std::int64_t promised : {1, 500, 10000, 19999}) {
      std::vector<double> row(static_cast<std::size_t>(cols));
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = random.normal() + (static_cast<std::int64_t>(i) < promised ? beginning : 0.0);
      }
      const Matrix matrix = make_row(GetParam(), row);
      for (const std::int64_t k : {1, 64, 1000, 15000}) {
        for (const rtopk::Direction direction : kDirections) {
          if (left_out(random)) continue;
          rtopk::Problem problem = problem_for(matrix, k);
          problem.direction = direction;
          if (!conforms(problem, matrix)) return;
        }
      }
    }
  }
}

/// The elements that cuda_cluster samples in a row of one draw for each group, if the row is aligned.
std::vector<bool> sampled_by_clusters(std::int64_t cols, std::int64_t element_bytes) {
  const std::int64_t vector = 16 / element_bytes;
  std::vector<bool> sampled(static_cast<std::size_t>(cols), false);
  for (std::int64_t piece = 0; piece < 256; ++piece) {
    const std::int64_t place = piece * 65536 + piece * 40503 % 65536;
    const std::int64_t first = (place * (cols / vector) / 256 >> 16) * vector;
    for (std::int64_t i = first; i < first + vector; ++i) sampled[static_cast<std::size_t>(i)] = true;
  }
  return sampled;
}

// A sample gives long rows their first threshold. These rows are made against it: what is sampled is lower than the
// rest, so that nearly everything reaches the threshold, or higher, so that too little does.
TEST_P(Rows, TheSampleMisleads) {
  Random random = random_for(27);
  for (const std::int64_t cols : {5000, 40000}) {
    const auto sampled = sampled_by_clusters(cols, static_cast<std::int64_t>(rtopk::size_of(GetParam())));
    for (const double away : {-100.0, 0.0, 100.0}) {
      for (const double values : {0.0, 3.0}) {  // any, or few different ones
        std::vector<double> row(static_cast<std::size_t>(cols));
        for (std::size_t i = 0; i < row.size(); ++i) {
          row[i] = values > 0 ? std::floor(values * random.uniform()) : 10 * random.normal();
          if (sampled[i]) row[i] += away;
        }
        const Matrix matrix = make_row(GetParam(), row);
        for (const std::int64_t k : {std::int64_t{1}, std::int64_t{64}, std::int64_t{700}, cols / 16}) {
          for (const rtopk::Direction direction : kDirections) {
            if (left_out(random)) continue;
            rtopk::Problem problem = problem_for(matrix, k);
            problem.direction = direction;
            if (!conforms(problem, matrix)) return;
          }
        }
      }
    }
  }
}

// Rows with many equal elements, like the output of ReLU. If the kth value of a row is tied, the search expects the
// same tie in the next row, where the kth value is again this one, or above or below it.
TEST_P(Rows, TiesComeAndGo) {
  Random random = random_for(23);
  for (const std::int64_t cols : {70, 256, 1000, 4096, 5000}) {
    for (const std::int64_t k : {std::int64_t{2}, cols / 8, cols / 3}) {
      const std::int64_t rows = 24;
      std::vector<double> elements;
      for (std::int64_t row = 0; row < rows; ++row) {
        const double expected = static_cast<double>(k) / static_cast<double>(cols);
        const double share = random.pick(std::vector<double>{0.0, 0.3, 0.5, 0.9, 1.0, 1.1, 2.0}) * expected;
        const double tie = random.uniform() < 0.1 ? random.normal() : 0.0;
        const double below = random.uniform() < 0.2 ? 1 - 1.05 * expected : 0.0;
        for (std::int64_t i = 0; i < cols; ++i) {
          const double where = random.uniform();
          const double away = 1 + std::floor(100 * std::abs(random.normal()));
          elements.push_back(where < share       ? tie + away
                             : where > 1 - below ? tie - away
                             : tie == 0.0        ? random.uniform() < 0.5 ? 0.0 : -0.0
                                                 : tie);
        }
      }
      Matrix matrix = make_row(GetParam(), elements);
      matrix.rows = rows;
      matrix.cols = cols;
      for (const rtopk::Direction direction : kDirections) {
        for (const rtopk::Order order : kOrders) {
          if (left_out(random)) continue;
          rtopk::Problem problem = problem_for(matrix, k);
          problem.direction = direction;
          problem.order = order;
          problem.passes = true;
          if (!conforms(problem, matrix, random_layout(random))) return;
        }
      }
    }
  }
}

// Most elements of a row are equal and not selected; some of the selected ones are the best that there are. Thresholds
// from a sample are then often an end of the order, or the value of the ties, and in some rows the sample misleads.
TEST_P(Rows, TiesAtTheEndsOfTheOrder) {
  Random random = random_for(26);
  const double infinity = std::numeric_limits<double>::infinity();
  const std::int64_t rows = scaled(500);
  for (const rtopk::Direction direction : kDirections) {
    const bool smallest = direction == rtopk::Direction::smallest;
    const double top = smallest ? -infinity : GetParam() == rtopk::DType::i32 ? infinity : std::nan("");
    for (const std::int64_t cols : {2100}) {
      const std::int64_t k = cols / random.between(8, 30);
      std::vector<double> elements;
      for (std::int64_t row = 0; row < rows; ++row) {
        const double share = (0.9 + 0.9 * random.uniform()) * static_cast<double>(k) / static_cast<double>(cols);
        const double best = random.uniform() * share * 0.5;
        for (std::int64_t i = 0; i < cols; ++i) {
          const double where = random.uniform();
          const double away = 1 + 1000 * random.uniform();
          elements.push_back(where >= share ? 0.0 : where < best ? top : smallest ? -away : away);
        }
      }
      Matrix matrix = make_row(GetParam(), elements);
      matrix.rows = rows;
      matrix.cols = cols;
      rtopk::Problem problem = problem_for(matrix, k);
      problem.direction = direction;
      problem.order = rtopk::Order::by_index;
      if (!conforms(problem, matrix)) return;
    }
  }
}

// Order by value sorts parts and merges them: tests every number of parts, and parts of different sizes.
TEST_P(Rows, OrderByValueOfAnyNumber) {
  Random random = random_for(24);
  for (const std::int64_t k : {2,   3,   15,  16,  17,  31,  32,   33,   47,   63,   64,   65,   97,   127,
                               128, 129, 255, 300, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 4097}) {
    const std::int64_t cols = k <= 1500 ? 1500 : 4200;
    for (const double values : {3.0, 40.0, 1e4}) {
      if (left_out(random)) continue;
      std::vector<double> elements(static_cast<std::size_t>(3 * cols));
      for (double& element : elements) element = std::floor(values * (random.uniform() - 0.5));
      Matrix matrix = make_row(GetParam(), elements);
      matrix.rows = 3;
      matrix.cols = cols;
      for (const rtopk::Direction direction : kDirections) {
        rtopk::Problem problem = problem_for(matrix, k);
        problem.direction = direction;
        problem.order = rtopk::Order::by_value;
        if (!conforms(problem, matrix, random_layout(random))) return;
      }
    }
  }
}

// Of more than a thousand rows, a GPU sorts each in a warp instead of a block.
TEST_P(Rows, OrderByValueOfManyRows) {
  Random random = random_for(28);
  const std::int64_t rows = 1100;
  for (const std::int64_t k : {129, 256, 257, 512}) {
    if (left_out(random)) continue;
    const double values = random.pick(std::vector<double>{3.0, 40.0, 1e4});
    const std::int64_t cols = k + 88;
    std::vector<double> elements(static_cast<std::size_t>(rows * cols));
    for (double& element : elements) element = std::floor(values * (random.uniform() - 0.5));
    Matrix matrix = make_row(GetParam(), elements);
    matrix.rows = rows;
    matrix.cols = cols;
    rtopk::Problem problem = problem_for(matrix, k);
    problem.direction = random.uniform() < 0.5 ? rtopk::Direction::largest : rtopk::Direction::smallest;
    problem.order = rtopk::Order::by_value;
    if (!conforms(problem, matrix)) return;
  }
}

// The two smallest results are as close as the type allows, the larger one is in the last column, and the others are far
// away: a sort key that has room for only the first bits of an element and its column cannot tell them apart.
TEST_P(Rows, OrderByValueOfTheClosestInTheLastColumn) {
  Random random = random_for(25);
  const bool coarse = GetParam() == rtopk::DType::f16 || GetParam() == rtopk::DType::bf16;
  const double far = GetParam() == rtopk::DType::i32 ? 1e9 : 1e4;
  const double step = coarse                            ? 0x1p-7
                      : GetParam() == rtopk::DType::f32 ? 0x1p-23
                      : GetParam() == rtopk::DType::f64 ? 0x1p-52
                                                        : 1.0 / far;
  for (const std::int64_t cols : {8, 16, 32, 64, 100, 128, 200, 256, 512, 1000, 1024, 2048, 4096}) {
    for (const std::int64_t k : {2, 3, 8, 17, 64, 100, 128}) {
      if (k > cols || left_out(random)) continue;
      std::vector<double> row(static_cast<std::size_t>(cols), -far * 1.5);
      // The results before the last two are in the first columns, and may have any order.
      for (std::int64_t i = 0; i < k - 2; ++i) row[static_cast<std::size_t>(i)] = far * (0.5 + 0.5 * random.uniform());
      row[static_cast<std::size_t>(random.between(k - 2, cols - 2))] = -far;
      row.back() = -far * (1.0 - step);
      Matrix matrix = make_row(GetParam(), row);
      rtopk::Problem problem = problem_for(matrix, k);
      problem.order = rtopk::Order::by_value;
      if (!conforms(problem, matrix)) return;
      std::transform(row.begin(), row.end(), row.begin(), std::negate<>());
      matrix = make_row(GetParam(), row);
      problem.direction = rtopk::Direction::smallest;
      if (!conforms(problem, matrix)) return;
    }
  }
}

// One rounding of epsilon * max decides if a pass is made: rows of exactly this width, and slightly more or less.
// Not for the 16-bit types, which are too coarse for such rows.
class FineRows : public DTypeTest {};

TEST_P(FineRows, TheWidthIsEpsilon) {
  Random random = random_for(23);
  const bool single = GetParam() == rtopk::DType::f32;
  const double step = single ? 0x1p-23 : GetParam() == rtopk::DType::f64 ? 0x1p-52 : 1.0;
  for (std::int64_t left = scaled(300); left > 0; --left) {
    // In [0.7, 0.95] and [1.5, 2): the width is at least 1, so it has the same spacing as the greatest value.
    const double epsilon = 0.7 + 0.25 * random.uniform();
    double greatest = 1.5 + 0.5 * random.uniform();
    if (single) greatest = static_cast<double>(static_cast<float>(greatest));
    if (GetParam() == rtopk::DType::i32) greatest = std::round(greatest * 1e9);
    const double width =
        single ? static_cast<double>(static_cast<float>(epsilon) * static_cast<float>(greatest)) : epsilon * greatest;
    std::vector<double> rows;
    for (const double ulps : {-1.0, 0.0, 1.0}) {
      const double least = std::round((greatest - width) / step) * step + ulps * step;
      for (const double share : {0.3, 0.0, 0.9, 0.6, 1.0}) rows.push_back(least + share * (greatest - least));
    }
    Matrix matrix = make_row(GetParam(), rows);
    matrix.rows = 3;
    matrix.cols = 5;
    rtopk::Problem problem = problem_for(matrix, 2);
    problem.epsilon = epsilon;
    problem.passes = true;
    if (!conforms(problem, matrix)) return;
    // The same, mirrored.
    std::transform(rows.begin(), rows.end(), rows.begin(), std::negate<>());
    matrix.bytes = make_row(GetParam(), rows).bytes;
    problem.direction = rtopk::Direction::smallest;
    if (!conforms(problem, matrix)) return;
  }
}

// The last selected tie is before, at and after every position of a vector.
TEST_P(Rows, TiesEndAtEveryPlace) {
  for (std::int64_t k = 1; k <= 80; ++k) {
    std::vector<double> row(80, 1.0);
    row[static_cast<std::size_t>(k * 37 % 80)] = 2.0;
    row[static_cast<std::size_t>(k * 11 % 80)] = 0.0;
    const Matrix matrix = make_row(GetParam(), row);
    for (const rtopk::Direction direction : kDirections) {
      rtopk::Problem problem = problem_for(matrix, k);
      problem.direction = direction;
      if (!conforms(problem, matrix)) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, Rows, testing::ValuesIn(kDTypes), dtype_name);
INSTANTIATE_TEST_SUITE_P(Conformance, FineRows,
                         testing::Values(rtopk::DType::f32, rtopk::DType::f64, rtopk::DType::i32), dtype_name);

}  // namespace
}  // namespace rtopk_test
