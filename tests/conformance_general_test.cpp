// General rows: lengths, starts, segments of a flat array, k of each row, indices written through a map, order by
// magnitude and thresholds. What lies outside of a row would win if it were read.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "conformance.hpp"
#include "enumerators.hpp"
#include "general_rows.hpp"

namespace rtopk_test {
namespace {

using rtopk::ArrayType;
using rtopk::Form;
using rtopk::IndexKind;

struct Size {
  std::int64_t cols;
  std::int64_t k;
};

/// One size for each way to select: rows of every family.
constexpr Size kSizes[] = {{1, 1},       {2, 1},        {9, 3},       {40, 8},      {64, 64},     {100, 10},
                           {150, 4},     {256, 32},     {1000, 1},    {1000, 100},  {2100, 300},  {5000, 64},
                           {5000, 4999}, {20000, 2048}, {40000, 100}, {70000, 512}, {70000, 9000}};

constexpr ArrayType kTypes[] = {ArrayType::i32, ArrayType::i64};

class GeneralRows : public DTypeTest {
 public:
  /// Families that cannot take a problem are left out: says how often, so that a family that takes none is seen.
  static void TearDownTestSuite() {
    for (const auto& [runner, count] : general_coverage()) {
      std::printf("general rows, %s: %lld run, %lld left out\n", runner.c_str(), static_cast<long long>(count.run),
                  static_cast<long long>(count.left_out));
    }
  }

 protected:
  static rtopk::Problem problem_of(std::int64_t rows, const Size& size) {
    rtopk::Problem problem;
    problem.rows = rows;
    problem.cols = size.cols;
    problem.k = size.k;
    problem.dtype = GetParam();
    return problem;
  }

  /// Forms, orders and types that ragged rows can have.
  static void any_shape(rtopk::Problem& problem, Random& random) {
    do {
      random.pick(shapes_for(problem.cols)).apply(problem);
    } while (problem.form == Form::cbsr);
  }
  static void any_pairs(rtopk::Problem& problem, Random& random) {
    do {
      random.pick(shapes_for(problem.cols)).apply(problem);
    } while (problem.form != Form::pairs || !problem.indices);
  }
};

/// Every length that is special: none, one, around k, all, and those that no row can have.
std::vector<std::int64_t> special_lengths(const Size& size, ArrayType type) {
  const bool narrow = type == ArrayType::i32;
  const std::int64_t least =
      narrow ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int64_t>::min();
  return {size.cols,     0,  size.k,        size.k - 1, size.cols,   1, size.k + 1, size.cols - 1,
          size.cols / 2, -1, size.cols + 1, least,      -(least + 1)};
}

TEST_P(GeneralRows, EveryLength) {
  Random random = random_for(50);
  for (const Size& size : kSizes) {
    for (const ArrayType type : kTypes) {
      for (const rtopk::Direction direction : kDirections) {
        if (left_out(random)) continue;
        RowNumbers numbers;
        numbers.lengths = special_lengths(size, type);
        rtopk::Problem problem = problem_of(std::ssize(numbers.lengths), size);
        problem.ragged.lengths = type;
        problem.direction = direction;
        any_shape(problem, random);
        problem.thresholds = problem.form == Form::pairs && random.coin();
        if (!conforms(problem, input_for(problem, random), random_layout(random), numbers)) return;
      }
    }
  }
}

TEST_P(GeneralRows, EveryStart) {
  Random random = random_for(51);
  for (const Size& size : kSizes) {
    for (const ArrayType type : kTypes) {
      if (left_out(random)) continue;
      RowNumbers numbers;
      for (const std::int64_t start : special_lengths(size, type)) {
        for (const std::int64_t length : {size.cols, size.k, size.k - 1}) {
          numbers.starts.push_back(start);
          numbers.lengths.push_back(length);
        }
      }
      rtopk::Problem problem = problem_of(std::ssize(numbers.starts), size);
      if (size.cols > 10000) {  // the oracle takes long
        problem.rows = 13;
        numbers.starts.resize(13);
        numbers.lengths.resize(13);
      }
      problem.ragged.starts = type;
      if (random.coin()) problem.ragged.lengths = ArrayType::i64;
      problem.direction = random.pick(kDirections);
      any_shape(problem, random);
      if (!conforms(problem, input_for(problem, random), random_layout(random), numbers)) return;
    }
  }
}

TEST_P(GeneralRows, EveryKOfARow) {
  Random random = random_for(52);
  for (const Size& size : kSizes) {
    for (const ArrayType type : kTypes) {
      if (left_out(random)) continue;
      RowNumbers numbers;
      numbers.k = special_lengths({size.k, (size.k + 1) / 2}, type);
      rtopk::Problem problem = problem_of(std::ssize(numbers.k), size);
      problem.ragged.k = type;
      problem.direction = random.pick(kDirections);
      any_shape(problem, random);
      if (random.coin()) {
        problem.ragged.lengths = ArrayType::i32;
        for (std::int64_t i = 0; i < problem.rows; ++i) numbers.lengths.push_back(random.between(0, size.cols));
      }
      problem.thresholds = problem.form == Form::pairs;
      if (!conforms(problem, input_for(problem, random), random_layout(random), numbers)) return;
    }
  }
}

TEST_P(GeneralRows, Segments) {
  Random random = random_for(53);
  for (const Size& size : kSizes) {
    for (const ArrayType type : kTypes) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        if (left_out(random)) continue;
        rtopk::Problem problem = problem_of(random.between(1, size.cols > 10000 ? 6 : 40), size);
        RowNumbers numbers;
        make_ragged(problem, numbers, true, random);
        problem.ragged.offsets = type;
        fill_rows(problem, numbers, random);
        problem.direction = random.pick(kDirections);
        any_pairs(problem, random);
        problem.thresholds = random.coin();
        if (!conforms(problem, input_for(problem, random), random_layout(random), numbers)) return;
      }
    }
  }
}

// Offsets as no caller should give them: not ascending, negative, beyond the end.
TEST_P(GeneralRows, OffsetsInAnyOrder) {
  Random random = random_for(54);
  for (const Size& size : kSizes) {
    if (left_out(random)) continue;
    rtopk::Problem problem = problem_of(8, size);
    const std::int64_t elements = 3 * size.cols + 1;
    problem.ragged = {.offsets = random.pick(kTypes), .elements = elements};
    RowNumbers numbers;
    numbers.offsets = {elements, 0, size.cols, size.cols / 2, elements + 5, elements - size.k, -7, elements, elements};
    any_pairs(problem, random);
    if (!conforms(problem, input_for(problem, random), random_layout(random), numbers)) return;
  }
}

TEST_P(GeneralRows, ManyShortSegments) {
  Random random = random_for(55);
  for (const std::int64_t longest : {1, 2, 8, 33, 200}) {
    for (const std::int64_t k : {std::int64_t{1}, (longest + 1) / 2, longest}) {
      RowNumbers numbers;
      numbers.offsets = {0};
      for (std::int64_t left = scaled(4000); left > 0; --left) {
        const double share = random.uniform();
        numbers.offsets.push_back(numbers.offsets.back() + std::llround(share * share * static_cast<double>(longest)));
      }
      rtopk::Problem problem = problem_of(std::ssize(numbers.offsets) - 1, {longest, k});
      problem.ragged = {.offsets = random.pick(kTypes), .elements = numbers.offsets.back()};
      problem.direction = random.pick(kDirections);
      any_pairs(problem, random);
      if (!conforms(problem, input_for(problem, random), random_layout(random), numbers)) return;
    }
  }
}

TEST_P(GeneralRows, NoElementsAtAll) {
  rtopk::Problem problem = problem_of(3, {5, 2});
  problem.ragged.offsets = ArrayType::i32;
  problem.thresholds = true;
  RowNumbers numbers;
  numbers.offsets = {0, 0, 4, -1};
  Matrix nothing{GetParam(), 1, 0, {}, "nothing"};
  if (!conforms(problem, nothing, {}, numbers)) return;
  problem.rows = 0;
  numbers.offsets = {0};
  conforms(problem, nothing, {}, numbers);
}

TEST_P(GeneralRows, EveryIndexMap) {
  Random random = random_for(56);
  for (const Size& size : kSizes) {
    for (const IndexKind kind : enumerators<IndexKind>()) {
      for (const bool ragged : {false, true}) {
        if (left_out(random)) continue;
        rtopk::Problem problem = problem_of(size.cols > 10000 ? 3 : 9, size);
        problem.direction = random.pick(kDirections);
        any_pairs(problem, random);
        RowNumbers numbers;
        if (ragged) make_ragged(problem, numbers, random.coin(), random);
        map_indices(problem, kind, numbers, random);
        if (!conforms(problem, input_for(problem, random), random_layout(random), numbers)) return;
      }
    }
  }
}

// Ids say which of the equal elements were taken.
TEST_P(GeneralRows, TiesAndInfinitiesWithIds) {
  Random random = random_for(57);
  for (const Pattern pattern :
       {Pattern::all_equal, Pattern::two_values, Pattern::ties_at_border, Pattern::signed_zeros, Pattern::infinities,
        Pattern::infinities_at_border, Pattern::minus_infinities, Pattern::all_nan, Pattern::nan_and_infinities}) {
    for (const Size& size : kSizes) {
      if (left_out(random) || size.cols > 50000) continue;
      rtopk::Problem problem = problem_of(5, size);
      problem.direction = random.pick(kDirections);
      any_pairs(problem, random);
      problem.magnitude = random.coin();
      problem.thresholds = random.coin();
      problem.ragged.lengths = random.pick(kTypes);
      RowNumbers numbers;
      fill_rows(problem, numbers, random);
      map_indices(problem, IndexKind::ids, numbers, random);
      const Matrix matrix = make_matrix(GetParam(), problem.rows, size.cols, size.k, pattern, random);
      if (!conforms(problem, matrix, random_layout(random), numbers)) return;
    }
  }
}

// The kth value is a zero of either sign, one of many NaN, an infinity, or tied with its negative: of equal elements, the
// last one selected is the threshold, with its own bits. Indices are mapped, or count from where the row starts.
TEST_P(GeneralRows, ThresholdsWithBitsOfTheirOwn) {
  Random random = random_for(65);
  std::vector<Size> sizes(std::begin(kSizes), std::end(kSizes));
  sizes.insert(sizes.end(), {{150000, 700}, {150001, 40000}});  // shared by blocks
  for (const Pattern pattern :
       {Pattern::normal, Pattern::two_values, Pattern::ties_at_border, Pattern::half_zeros, Pattern::signed_zeros,
        Pattern::zeros_at_border, Pattern::denormals, Pattern::infinities, Pattern::infinities_at_border,
        Pattern::minus_infinities, Pattern::all_nan, Pattern::nan_at_border, Pattern::nan_and_infinities}) {
    for (const Size& size : sizes) {
      for (const rtopk::Direction direction : kDirections) {
        if (left_out(random) || (size.cols > 10000 && random.uniform() < 0.7)) continue;
        rtopk::Problem problem = problem_of(5, size);
        problem.direction = direction;
        problem.magnitude = random.between(0, 3) == 0;
        problem.thresholds = true;
        any_pairs(problem, random);
        RowNumbers numbers;
        problem.ragged.starts = random.pick(kTypes);
        problem.ragged.lengths = random.pick(kTypes);
        numbers.starts = {0, 0, 1, 0, random.between(0, size.cols)};
        numbers.lengths = {size.cols, size.cols - 1, size.cols, size.k, size.k - 1};
        map_indices(problem, random.pick(enumerators<IndexKind>()), numbers, random);
        // What a pattern has at the kth value, it has there for the smallest elements, too.
        const std::int64_t k = direction == rtopk::Direction::largest ? size.k : size.cols - size.k + 1;
        const Matrix matrix = make_matrix(GetParam(), problem.rows, size.cols, k, pattern, random);
        if (!conforms(problem, matrix, random_layout(random), numbers)) return;
      }
    }
  }
}

TEST_P(GeneralRows, MagnitudeOfEveryPattern) {
  Random random = random_for(58);
  for (int p = 0; p < kPatterns; ++p) {
    for (const Size& size : kSizes) {
      if (left_out(random) || (size.cols > 10000 && random.uniform() < 0.7)) continue;
      rtopk::Problem problem = problem_of(3, size);
      problem.direction = random.pick(kDirections);
      problem.magnitude = true;
      random.pick(shapes_for(size.cols)).apply(problem);
      problem.thresholds = problem.form == Form::pairs && random.coin();
      const Matrix matrix = make_matrix(GetParam(), 3, size.cols, size.k, static_cast<Pattern>(p), random);
      if (!conforms(problem, matrix, random_layout(random))) return;
    }
  }
}

// More rows than a CPU copies at a time, in every layout. Thresholds come from the results, whichever of them are written.
TEST_P(GeneralRows, ManyRowsByMagnitudeAndWithThresholds) {
  Random random = random_for(72);
  for (const Size& size : kSizes) {
    for (const bool magnitude : {false, true}) {
      if (left_out(random) || size.cols > 1000) continue;
      rtopk::Problem problem = problem_of(size.cols > 300 ? 20 : 170, size);
      problem.direction = random.pick(kDirections);
      problem.magnitude = magnitude;
      random.pick(shapes_for(size.cols)).apply(problem);
      problem.thresholds = problem.form == Form::pairs;
      const auto pattern = static_cast<Pattern>(random.between(0, kPatterns - 1));
      const Matrix matrix = make_matrix(GetParam(), problem.rows, size.cols, size.k, pattern, random);
      if (!conforms(problem, matrix, random_layout(random))) return;
    }
  }
}

TEST_P(GeneralRows, MagnitudeOfTheEndsOfTheType) {
  std::vector<double> row = {0.0, -0.0, 1, -1, -2, 2, 0.0, 3, -3, -0.0};
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double x : {infinity, -infinity, -1e9, 1e9}) row.push_back(x);  // the least and the greatest integer
  if (!is_integer(GetParam())) {
    row.push_back(std::nan(""));
    row.push_back(-std::nan(""));
  }
  const Matrix matrix = make_row(GetParam(), row);
  for (std::int64_t k = 1; k <= matrix.cols; ++k) {
    for (const rtopk::Direction direction : kDirections) {
      for (const rtopk::Order order : kOrders) {
        rtopk::Problem problem = problem_for(matrix, k);
        problem.magnitude = problem.thresholds = true;
        problem.direction = direction;
        problem.order = order;
        if (!conforms(problem, matrix)) return;
      }
    }
  }
}

TEST_P(GeneralRows, StoppedEarly) {
  Random random = random_for(59);
  for (const Limits& limits : kLimits) {
    for (const Size& size : kSizes) {
      if (left_out(random) || (size.cols > 3000 && random.uniform() < 0.8)) continue;
      rtopk::Problem problem = problem_of(size.cols > 10000 ? 3 : 9, size);
      problem.direction = random.pick(kDirections);
      problem.passes = true;
      limits.apply(problem);
      random.pick(shapes_for(size.cols)).apply(problem);
      RowNumbers numbers;
      generalise(problem, numbers, random);
      if (!conforms(problem, input_for(problem, random), random_layout(random), numbers)) return;
    }
  }
}

// The plan and the workspace are those of the longest row. Nothing of one call may be left for the next one: long rows,
// then short ones, then long ones again.
TEST_P(GeneralRows, OtherLengthsOnTheSameWorkspace) {
  Random random = random_for(60);
  for (const Size& size : kSizes) {
    for (const bool flat : {false, true}) {
      if (left_out(random)) continue;
      rtopk::Problem problem = problem_of(5, size);
      problem.direction = random.pick(kDirections);
      any_pairs(problem, random);
      RowNumbers numbers;
      make_ragged(problem, numbers, flat, random);
      if (!flat) problem.ragged.lengths = random.pick(kTypes);
      if (flat) problem.ragged.elements = 5 * size.cols;
      std::vector<CallData> calls(4);
      for (std::size_t i = 0; i < calls.size(); ++i) {
        const auto most = std::vector<std::int64_t>{size.cols, std::min<std::int64_t>(size.cols, 3), size.cols, 0}[i];
        calls[i].matrix = input_for(problem, random);
        fill_rows(problem, calls[i].numbers, random);
        for (std::int64_t& length : calls[i].numbers.lengths) length = most;
        for (std::size_t row = 0; row < calls[i].numbers.offsets.size(); ++row) {
          calls[i].numbers.offsets[row] = static_cast<std::int64_t>(row) * most;
        }
      }
      if (!conforms(problem, calls, random_layout(random))) return;
    }
  }
}

// One long row among short ones, as many as a GPU has multiprocessors and more.
TEST_P(GeneralRows, OneLongAmongManyShort) {
  Random random = random_for(61);
  for (const Size& size : {Size{1000, 64}, {9000, 512}, {40000, 1024}}) {
    if (left_out(random)) continue;
    rtopk::Problem problem = problem_of(size.cols > 10000 ? 40 : 300, size);
    problem.ragged.lengths = ArrayType::i32;
    RowNumbers numbers;
    for (std::int64_t i = 0; i < problem.rows; ++i) numbers.lengths.push_back(random.between(0, 2 * size.k));
    numbers.lengths[static_cast<std::size_t>(random.between(0, problem.rows - 1))] = size.cols;
    if (!conforms(problem, input_for(problem, random), random_layout(random), numbers)) return;
  }
}

// So long that several blocks of a GPU share a row of any type.
TEST_P(GeneralRows, SharedByBlocks) {
  Random random = random_for(64);
  for (const Size& size : {Size{150000, 1}, {150000, 700}, {150001, 40000}, {150001, 150001}}) {
    for (int turn = 0; turn < 3; ++turn) {
      if (left_out(random)) continue;
      rtopk::Problem problem = problem_of(random.between(1, 3), size);
      problem.direction = random.pick(kDirections);
      problem.passes = random.coin();
      random.pick(shapes_for(size.cols)).apply(problem);
      RowNumbers numbers;
      generalise(problem, numbers, random);
      if (!conforms(problem, input_for(problem, random), random_layout(random), numbers)) return;
    }
  }
}

TEST_P(GeneralRows, AnyNumberOfThreads) {
  Random random = random_for(62);
  for (const std::int64_t rows : {0, 1, 2, 7, 65, 300}) {
    for (const std::int32_t threads : {1, 2, 3, 5, 64}) {
      rtopk::Problem problem = problem_of(rows, {96, 10});
      RowNumbers numbers;
      generalise(problem, numbers, random);
      Layout layout;
      layout.threads = threads;
      if (!conforms(problem, input_for(problem, random), layout, numbers)) return;
    }
  }
}

TEST_P(GeneralRows, Random) {
  Random random = random_for(63);
  for (std::int64_t left = scaled(1500); left > 0; --left) {
    const auto cols = static_cast<std::int64_t>(std::exp(random.uniform() * std::log(20000.0)));
    rtopk::Problem problem =
        problem_of(random.between(0, std::min<std::int64_t>(40, 1 + 20000 / cols)), {cols, random_k(cols, random)});
    problem.direction = random.pick(kDirections);
    problem.passes = random.coin();
    if (random.between(0, 2) == 0) random.pick(kLimits).apply(problem);
    random.pick(shapes_for(cols)).apply(problem);
    RowNumbers numbers;
    generalise(problem, numbers, random);
    if (!conforms(problem, input_for(problem, random), random_layout(random), numbers)) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, GeneralRows, testing::ValuesIn(kDTypes), dtype_name);

}  // namespace
}  // namespace rtopk_test
