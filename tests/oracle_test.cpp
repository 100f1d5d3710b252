// Tests of the oracle: selections computed by hand, and wrong results that the comparison must reject.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <vector>

#include "check.hpp"
#include "conformance.hpp"
#include "enumerators.hpp"
#include "runner.hpp"

namespace rtopk_test {
namespace {

using rtopk::Direction;
using rtopk::DType;
using rtopk::Rule;

using Indices = std::vector<std::int64_t>;
constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

RowSelection select_one(const std::vector<double>& row, std::int64_t k, const Limits& limits = {},
                        Direction direction = Direction::largest, DType dtype = DType::f32) {
  const Matrix matrix = make_row(dtype, row);
  rtopk::Problem problem = problem_for(matrix, k);
  problem.direction = direction;
  limits.apply(problem);
  return select(problem, matrix.bytes.data()).at(0);
}

TEST(Oracle, ExactTakesTheLowestIndicesAtTheBorder) {
  const RowSelection selection = select_one({1, 3, 2, 3, 2, 2}, 4);
  EXPECT_EQ(selection.by_value, (Indices{1, 3, 2, 4}));
  EXPECT_EQ(selection.by_index, (Indices{1, 2, 3, 4}));
}

TEST(Oracle, NanIsGreatestInBothDirections) {
  const std::vector<double> row = {1, kNan, kInf, -kInf, -kNan};
  EXPECT_EQ(select_one(row, 4).by_value, (Indices{1, 4, 2, 0}));
  EXPECT_EQ(select_one(row, 4, {}, Direction::smallest).by_value, (Indices{3, 0, 2, 1}));
}

TEST(Oracle, ZerosAreEqual) {
  EXPECT_EQ(select_one({-0.0, 0.0, -1}, 1).by_value, (Indices{0}));
  EXPECT_EQ(select_one({0.0, -0.0, 1}, 1, {}, Direction::smallest).by_value, (Indices{0}));
}

TEST(Oracle, Algorithm2AsPrintedTakesTheFirstAtOrAboveTheLowerBound) {
  // min 0, max 8: threshold 4 counts 2 < 3, threshold 2 counts 5 >= 3; after two passes lo is 2.
  const std::vector<double> row = {2, 0, 3, 8, 2.5, 5, 1};
  EXPECT_EQ(select_one(row, 3, {.max_iter = 1, .rule = Rule::printed}).by_index, (Indices{0, 1, 2}));
  const RowSelection two = select_one(row, 3, {.max_iter = 2, .rule = Rule::printed});
  EXPECT_EQ(two.by_index, (Indices{0, 2, 3}));
  EXPECT_EQ(two.by_value, (Indices{3, 2, 0}));
  EXPECT_EQ(two.passes, 2);
  // Threshold 3 counts exactly 3: the search is over after three passes.
  const RowSelection many = select_one(row, 3, {.max_iter = 100, .rule = Rule::printed});
  EXPECT_EQ(many.by_index, (Indices{2, 3, 5}));
  EXPECT_EQ(many.passes, 3);
}

TEST(Oracle, Algorithm2TakesWhatReachesTheLastThresholdFirst) {
  // The thresholds of the test above. After one pass, 8 and 5 reach the last one, 4; the first of [0, 4) fills up.
  const std::vector<double> row = {2, 0, 3, 8, 2.5, 5, 1};
  const RowSelection one = select_one(row, 3, {.max_iter = 1});
  EXPECT_EQ(one.by_index, (Indices{0, 3, 5}));
  EXPECT_EQ(one.by_value, (Indices{3, 5, 0}));
  EXPECT_EQ(one.passes, 1);
  // The last threshold, 2, counts 5: the first three of them, though 5 has reached the threshold before.
  EXPECT_EQ(select_one(row, 3, {.max_iter = 2}).by_index, (Indices{0, 2, 3}));
  EXPECT_EQ(select_one(row, 3, {.max_iter = 100}).by_index, (Indices{2, 3, 5}));
}

TEST(Oracle, Algorithm2StaysAtAnEndThatTheMidpointRoundsTo) {
  // The midpoint of 1 - 2^-24 and 1 rounds to 1, which counts 1 < 2: the threshold of this pass and of all later ones.
  const std::vector<double> row = {1.0 - 0x1p-24, 1.0 - 0x1p-24, 1.0};
  for (const std::int32_t max_iter : {1, 5}) {
    const RowSelection selection = select_one(row, 2, {.max_iter = max_iter});
    EXPECT_EQ(selection.by_index, (Indices{0, 2}));
    EXPECT_EQ(selection.passes, 1);
    EXPECT_EQ(select_one(row, 2, {.max_iter = max_iter, .rule = Rule::printed}).by_index, (Indices{0, 1}));
  }
}

TEST(Oracle, Algorithm2IsMirroredForSmallest) {
  const std::vector<double> row = {-2, 0, -3, -8, -2.5, -5, -1};
  EXPECT_EQ(select_one(row, 3, {.max_iter = 1}, Direction::smallest).by_index, (Indices{0, 3, 5}));
  EXPECT_EQ(select_one(row, 3, {.max_iter = 2}, Direction::smallest).by_index, (Indices{0, 2, 3}));
}

TEST(Oracle, Algorithm1FillsUpFromBelowTheThreshold) {
  // 0..8, epsilon 0.5 * 8 = 4: one pass at 4 counts 2 < 3, then 4 - 0 is not above 4. Two sure, then the first below.
  const std::vector<double> row = {2, 0, 3, 8, 2.5, 5, 1};
  const RowSelection selection = select_one(row, 3, {.epsilon = 0.5});
  EXPECT_EQ(selection.by_index, (Indices{0, 3, 5}));
  EXPECT_EQ(selection.passes, 1);
}

TEST(Oracle, Algorithm1WithoutAPassTakesTheFirst) {
  const RowSelection selection = select_one({1, 2, 3}, 2, {.epsilon = 1.0});
  EXPECT_EQ(selection.by_index, (Indices{0, 1}));
  EXPECT_EQ(selection.passes, 0);
}

TEST(Oracle, Algorithm1KeepsTheLowerBoundIfTheLastCountWasEnough) {
  // k 4: the pass at 4 counts 5 > 4; width 4 is not above 4.
  const RowSelection selection = select_one({5, 0, 6, 8, 4, 4.5}, 4, {.epsilon = 0.5});
  EXPECT_EQ(selection.by_index, (Indices{0, 2, 3, 4}));
  EXPECT_EQ(selection.passes, 1);
}

TEST(Oracle, RowsThatAreNotFiniteAreExact) {
  EXPECT_EQ(select_one({1, 2, 3, kInf}, 2, {.max_iter = 1}).by_index, (Indices{2, 3}));
  EXPECT_EQ(select_one({1, 2, 3, kNan}, 2, {.epsilon = 1.0}).by_index, (Indices{2, 3}));
}

TEST(Oracle, BisectionIsExactAndCountsPassesUntilNothingLiesBetween) {
  // Two equal elements at the kth value are never separated: bisection of [1, 2] continues until lo and hi are
  // neighbours, 23 times for the 23 fraction bits of f32.
  const RowSelection selection = select_one({2, 1, 1}, 2, {.search = rtopk::Search::bisection});
  EXPECT_EQ(selection.by_index, (Indices{0, 1}));
  EXPECT_EQ(selection.passes, 23);
  const RowSelection in_double =
      select_one({2, 1, 1}, 2, {.search = rtopk::Search::bisection}, Direction::largest, DType::f64);
  EXPECT_EQ(in_double.passes, 52);
}

TEST(Oracle, NeighboursOfWhichTheGreaterIsEven) {
  // The midpoint of 1 - 2^-24 and 1 rounds to 1, the maximum, which was not counted yet: Algorithm 2 counts it.
  const RowSelection selection = select_one({1.0 - 0x1p-24, 1.0}, 1, {.max_iter = 1});
  EXPECT_EQ(selection.by_index, (Indices{1}));
  EXPECT_EQ(selection.passes, 1);
}

TEST(Oracle, RowsAreCutAtTheirEnds) {
  const Matrix matrix = make_row(DType::f32, {9, 1, 5, 3, 7});
  rtopk::Problem problem = problem_for(matrix, 3);
  problem.ragged.lengths = problem.ragged.starts = rtopk::ArrayType::i32;
  const auto selected = [&](std::int64_t start, std::int64_t length) {
    RowNumbers numbers;
    numbers.starts = {start};
    numbers.lengths = {length};
    return select(problem, matrix.bytes.data(), numbers).at(0);
  };
  EXPECT_EQ(selected(1, 3).by_value, (Indices{2, 3, 1}));
  EXPECT_FALSE(selected(1, 3).is_short);
  EXPECT_EQ(selected(1, 2).by_value, (Indices{2, 1}));
  EXPECT_TRUE(selected(1, 2).is_short);
  EXPECT_EQ(selected(3, 100).by_value, (Indices{4, 3}));
  EXPECT_EQ(selected(-2, 2).by_value, (Indices{0, 1}));
  EXPECT_EQ(selected(5, 1).by_value, Indices{});
  EXPECT_EQ(selected(0, -1).by_value, Indices{});
}

TEST(Oracle, SegmentsAreCutAtTheEndOfTheInput) {
  const Matrix flat = make_row(DType::f32, {9, 1, 5, 3, 7});
  rtopk::Problem problem = problem_for(flat, 2);
  problem.rows = 4;
  problem.cols = 3;
  problem.ragged = {.offsets = rtopk::ArrayType::i64, .elements = 5};
  RowNumbers numbers;
  numbers.offsets = {-4, 2, 1, 100, 3};  // [0, 2), none, [1, 5) of which three, none
  const auto rows = select(problem, flat.bytes.data(), numbers);
  EXPECT_EQ(rows.at(0).by_value, (Indices{0, 1}));
  EXPECT_EQ(rows.at(1).by_value, Indices{});
  EXPECT_EQ(rows.at(2).by_value, (Indices{2, 3}));
  EXPECT_EQ(rows.at(3).by_value, Indices{});
}

TEST(Oracle, MagnitudeIgnoresTheSign) {
  const Matrix matrix = make_row(DType::i32, {3, -2147483648.0, 2147483647.0, -3, 0});
  rtopk::Problem problem = problem_for(matrix, 5);
  problem.magnitude = true;
  EXPECT_EQ(select(problem, matrix.bytes.data()).at(0).by_value, (Indices{1, 2, 0, 3, 4}));
  problem.direction = Direction::smallest;
  EXPECT_EQ(select(problem, matrix.bytes.data()).at(0).by_value, (Indices{4, 0, 3, 2, 1}));
}

TEST(Oracle, PagesThatAreNotThereAreMinusOne) {
  rtopk::Problem problem;
  problem.rows = 2;
  problem.cols = 8;
  problem.index_map = {
      .kind = rtopk::IndexKind::pages, .type = rtopk::ArrayType::i32, .stride = 4, .pages = 3, .page_size = 2};
  RowNumbers numbers;
  numbers.map = {5, -1, 0, 99, 1, 2, 3};
  EXPECT_EQ(written_index(problem, numbers, 0, 1, 2), 11);
  EXPECT_EQ(written_index(problem, numbers, 0, 1, 3), -1);  // a negative entry
  EXPECT_EQ(written_index(problem, numbers, 1, 0, 5), 7);
  EXPECT_EQ(written_index(problem, numbers, 1, 0, 6), -1);  // behind the end of the table
  problem.index_map.table_of = rtopk::ArrayType::i32;
  problem.index_map.tables = 2;
  numbers.table_of = {1, 2};
  EXPECT_EQ(written_index(problem, numbers, 0, 0, 0), 2);
  EXPECT_EQ(written_index(problem, numbers, 1, 0, 0), -1);  // no such table
}

// ---------------------------------------------------------------------------------------------------------------------
// Corrupted results.

class Corrupted : public testing::Test {
 protected:
  Corrupted() {
    problem_.passes = true;
    problem_.max_iter = 4;
    problem_.search = rtopk::Search::bisection;  // whose passes are known
  }

  /// The result of the comparison after `corrupt` has changed the right output.
  template <typename Corrupt>
  std::string verdict(Corrupt corrupt, bool ascending = true) {
    const auto selections = select(problem_, matrix_.bytes.data());
    const Result right = render(problem_, matrix_, selections);
    EXPECT_EQ(compare(problem_, selections, right, right, ascending), "");
    Result wrong = right;
    corrupt(wrong);
    return compare(problem_, selections, right, wrong, ascending);
  }

  Random random_{7};
  Matrix matrix_ = make_matrix(DType::f32, 4, 50, 5, Pattern::normal, random_);
  rtopk::Problem problem_ = problem_for(matrix_, 5);
};

TEST_F(Corrupted, ValueByOneBit) {
  EXPECT_EQ(verdict([](Result& r) { r.values[(2 * 5 + 3) * 4] ^= std::byte{1}; }).rfind("row 2: values[3] is 0x", 0),
            0u);
}

TEST_F(Corrupted, SignOfZero) {
  matrix_ = make_row(DType::f32, {0, -1, 0, -2, 0, 0, -3});
  problem_ = problem_for(matrix_, 4);
  const std::string text = verdict([](Result& r) { r.values[1 * 4 + 3] ^= std::byte{0x80}; });
  EXPECT_EQ(text, "row 0: values[1] is 0x80000000, expected 0x00000000");
}

TEST_F(Corrupted, IndexOfAnotherElement) {
  EXPECT_EQ(verdict([](Result& r) { r.indices[1 * 5 * 8] ^= std::byte{1}; }).rfind("row 1: indices[0] is 0x", 0), 0u);
}

TEST_F(Corrupted, TwoResultsExchanged) {
  const auto exchange = [](Result& r) {
    for (std::size_t i = 0; i < 4; ++i) std::swap(r.values[i], r.values[4 + i]);
    for (std::size_t i = 0; i < 8; ++i) std::swap(r.indices[i], r.indices[8 + i]);
  };
  EXPECT_EQ(verdict(exchange).rfind("row 0: indices[0]", 0), 0u);
  // If no order is promised, the same exchange is right, but not of the values alone.
  EXPECT_EQ(verdict(exchange, false), "");
  const auto values_alone = [](Result& r) {
    for (std::size_t i = 0; i < 4; ++i) std::swap(r.values[i], r.values[4 + i]);
  };
  EXPECT_NE(verdict(values_alone, false), "");
}

TEST_F(Corrupted, Passes) {
  EXPECT_EQ(verdict([](Result& r) { r.passes[3] = 99; }).rfind("row 3: passes is 99, expected ", 0), 0u);
  problem_.search = rtopk::Search::fast;
  EXPECT_EQ(verdict([](Result& r) { r.passes[3] = 99; }), "");  // the library's search may take any number of passes
  EXPECT_EQ(verdict([](Result& r) { r.passes[3] = -1; }), "row 3: passes is -1, which cannot be");
}

TEST_F(Corrupted, DenseNotZeroed) {
  problem_.form = rtopk::Form::dense;
  EXPECT_EQ(verdict([this](Result& r) { r.dense = matrix_.bytes; }).rfind("row 0: dense[", 0), 0u);
}

TEST_F(Corrupted, MaskOneTooMany) {
  problem_.form = rtopk::Form::mask;
  const auto add_one = [](Result& r) {
    for (std::size_t i = 150; i < 200; ++i) {
      if (r.mask[i] == std::byte{0}) {
        r.mask[i] = std::byte{1};
        return;
      }
    }
  };
  const std::string text = verdict(add_one);
  EXPECT_EQ(text.rfind("row 3: mask[", 0), 0u);
  EXPECT_NE(text.find("is 0x01, expected 0x00"), std::string::npos);
}

TEST_F(Corrupted, Thresholds) {
  problem_.thresholds = true;
  EXPECT_EQ(verdict([](Result& r) { r.thresholds[3 * 4] ^= std::byte{1}; }).rfind("row 3: thresholds[0] is 0x", 0), 0u);
}

/// A backend whose writes have a flaw.
class FlawedRunner final : public Runner {
 public:
  enum class Flaw { writes_behind, writes_before, changes_input, writes_nothing };
  explicit FlawedRunner(Flaw flaw) : flaw_(flaw) {}
  [[nodiscard]] std::string name() const override { return "flawed"; }
  [[nodiscard]] bool unsorted_is_ascending() const override { return true; }
  void activate() const override {}
  [[nodiscard]] std::string run(const Call& call) const override {
    if (flaw_ == Flaw::writes_nothing) return "";
    std::string wrong = host_runners().front()->run(call);
    if (flaw_ == Flaw::changes_input) call.input[0] ^= std::byte{1};
    scribble(call.values.data() +
             (flaw_ == Flaw::writes_before ? -1 : static_cast<std::ptrdiff_t>(call.values.size())));
    return wrong;
  }

 private:
  // The guards must detect these writes, so AddressSanitizer must not stop them.
  __attribute__((no_sanitize("address"))) void scribble(std::byte* at) const {
    // Not with std::byte operators: they are functions, which AddressSanitizer would check.
    if (flaw_ == Flaw::writes_behind || flaw_ == Flaw::writes_before) *reinterpret_cast<unsigned char*>(at) ^= 1u;
  }

  Flaw flaw_;
};

TEST_F(Corrupted, RunnersThatMisbehaveAreFoundOut) {
  const auto verdict_on = [this](FlawedRunner::Flaw flaw) {
    return check(FlawedRunner(flaw), problem_, matrix_, select(problem_, matrix_.bytes.data()), {});
  };
  using Flaw = FlawedRunner::Flaw;
  EXPECT_EQ(verdict_on(Flaw::writes_behind).rfind("out of bounds of values: byte 80 of 80 was written", 0), 0u);
  EXPECT_EQ(verdict_on(Flaw::writes_before).rfind("out of bounds of values: byte -1 of 80 was written", 0), 0u);
  EXPECT_EQ(verdict_on(Flaw::changes_input).rfind("the input was changed", 0), 0u);
  EXPECT_EQ(verdict_on(Flaw::writes_nothing).rfind("row 0: indices[0] is 0xa5a5a5a5a5a5a5a5, expected 0x", 0), 0u);
  EXPECT_NE(verdict_on(Flaw::writes_nothing).find("RTOPK_TEST_SEED="), std::string::npos);
}

TEST(Runners, KnowTheFamiliesByTheirNames) {
  const auto names_of = [](rtopk::DeviceKind device) {
    std::set<std::string> names;
    for (const rtopk::Family family : families_of(device)) names.insert(rtopk::name(family));
    return names;
  };
  const auto has = [](const std::set<std::string>& all, const std::set<std::string>& some) {
    return std::ranges::includes(all, some);
  };
  EXPECT_TRUE(
      has(names_of(rtopk::DeviceKind::cpu), {"cpu_lanes", "cpu_best", "cpu_row", "cpu_stream", "cpu_bisection"}));
  EXPECT_TRUE(has(names_of(rtopk::DeviceKind::cuda), {"cuda_warp", "cuda_tournament", "cuda_block", "cuda_filter",
                                                      "cuda_cluster", "cuda_radix", "cuda_scan"}));
}

TEST(Runners, CoverEveryInstructionSetOfThisBuild) {
  // An instruction set without a runner would silently have no tests.
  std::istringstream targets(rtopk::build_info().cpu_targets);
  std::set<std::string> expected = {"reference"};
  for (std::string target; targets >> target;) {
    expected.insert("cpu " + target);
    if (!rtopk::build_info().highway) continue;
    expected.insert("cpu " + target + ", in parts");
    for (const rtopk::Family family : families_of(rtopk::DeviceKind::cpu)) {
      expected.insert("cpu " + target + ", " + rtopk::name(family));
    }
  }
  std::set<std::string> there;
  for (const Runner* runner : host_runners()) there.insert(runner->name());
  EXPECT_EQ(there, expected);
  EXPECT_GE(there.size(), 2u);
}

TEST(Runners, CoverTheGpu) {
  rtopk::Traits traits;
  if (!rtopk::query_traits({rtopk::DeviceKind::cuda, 0}, traits).ok())
    GTEST_SKIP() << "no GPU, or a build without CUDA";
  if (std::getenv("RTOPK_TEST_RUNNERS") != nullptr) GTEST_SKIP() << "RTOPK_TEST_RUNNERS chooses the runners";
  std::set<std::string> there;
  for (const auto& runner : runners()) there.insert(runner->name());
  for (const char* name : {"cuda", "cuda, chunks"}) EXPECT_TRUE(there.contains(name)) << name;
  for (const rtopk::Family family : families_of(rtopk::DeviceKind::cuda)) {
    const std::string name = std::string("cuda, ") + rtopk::name(family);
    EXPECT_TRUE(there.contains(name)) << name;
  }
}

TEST(Conformance, RunsEveryElementType) {
  EXPECT_EQ(std::vector<DType>(std::begin(kDTypes), std::end(kDTypes)), enumerators<DType>());
}

TEST(Patterns, HoldWhatTheyPromise) {
  // If a pattern lost its NaN, every test of NaN would pass.
  Random random(3);
  for (const DType dtype : kDTypes) {
    if (is_integer(dtype)) continue;
    const std::size_t size = rtopk::size_of(dtype);
    const auto count = [&](Pattern pattern, auto wanted) {
      const Matrix matrix = make_matrix(dtype, 1, 200, 20, pattern, random);
      int found = 0;
      for (std::size_t i = 0; i < 200; ++i) found += wanted(decode(dtype, matrix.bytes.data() + i * size)) ? 1 : 0;
      return found;
    };
    const auto is_nan = [](double x) { return std::isnan(x); };
    const auto is_inf = [](double x) { return std::isinf(x); };
    const auto is_zero = [](double x) { return x == 0.0; };
    EXPECT_EQ(count(Pattern::all_nan, is_nan), 200);
    EXPECT_EQ(count(Pattern::one_nan, is_nan), 1);
    EXPECT_NEAR(count(Pattern::nan_at_border, is_nan), 20, 1);
    EXPECT_NEAR(count(Pattern::infinities_at_border, is_inf), 20, 1);
    EXPECT_EQ(count(Pattern::signed_zeros, is_zero), 200);
    EXPECT_GT(count(Pattern::zeros_at_border, is_zero), 0);
    EXPECT_GT(count(Pattern::half_zeros, is_zero), 50);
    EXPECT_EQ(count(Pattern::normal, [](double x) { return !std::isfinite(x); }), 0);
    EXPECT_EQ(count(Pattern::every_scale, is_nan), 0);
  }
}

}  // namespace
}  // namespace rtopk_test
