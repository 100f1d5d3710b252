// Plans: their text, comparison, and that they depend only on problem and traits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <rtopk/rtopk.hpp>

namespace rtopk_test {
namespace {

using rtopk::Family;
using rtopk::Plan;
using rtopk::Problem;

static_assert(std::is_trivially_copyable_v<Problem>);
static_assert(std::is_trivially_copyable_v<Plan>);
static_assert(std::is_trivially_copyable_v<rtopk::Status>);

Problem some_problem() {
  Problem problem;
  problem.rows = 1000;
  problem.cols = 768;
  problem.k = 32;
  return problem;
}

Plan plan_of(const Problem& problem, std::int32_t threads = 4) {
  rtopk::Traits traits;
  traits.threads = threads;
  Plan plan;
  const rtopk::Status status = rtopk::make_plan(problem, traits, plan);
  EXPECT_TRUE(status.ok()) << status.text();
  return plan;
}

TEST(Plans, AreEqualForEqualProblems) {
  EXPECT_EQ(plan_of(some_problem()), plan_of(some_problem()));
  Problem other = some_problem();
  other.k = 33;
  EXPECT_NE(plan_of(some_problem()), plan_of(other));
  Plan plan = plan_of(some_problem());
  plan.rows_per_block += 1;
  EXPECT_NE(plan, plan_of(some_problem()));
}

TEST(Plans, KeepTheProblem) {
  Problem problem = some_problem();
  problem.row_stride = 800;
  problem.order = rtopk::Order::by_value;
  problem.max_iter = 5;
  problem.rule = rtopk::Rule::printed;
  EXPECT_EQ(plan_of(problem).problem, problem);
}

TEST(Plans, TakeNoMoreThreadsThanThereAre) {
  Problem problem = some_problem();
  problem.rows = 1000000;
  for (const std::int32_t threads : {1, 2, 7, 64}) {
    const Plan plan = plan_of(problem, threads);
    EXPECT_GE(plan.threads, 1);
    EXPECT_LE(plan.threads, threads);
    EXPECT_GE(plan.workspace_bytes, static_cast<std::size_t>(plan.threads) * plan.scratch_bytes);
  }
  EXPECT_EQ(plan_of(problem, 64).threads, 64);
  problem.rows = 1;
  EXPECT_EQ(plan_of(problem, 64).threads, 1);
}

// A workspace that grows with the matrix would be a problem where memory is short.
TEST(Plans, WorkspaceDoesNotGrowWithTheRows) {
  Problem few = some_problem();
  few.rows = 10000;
  Problem many = some_problem();
  many.rows = 10000000;
  EXPECT_EQ(plan_of(few).workspace_bytes, plan_of(many).workspace_bytes);
}

TEST(Plans, OfColumnsNeedNoCopyOfTheMatrix) {
  Problem few = some_problem();
  few.rows = 10000;
  few.row_stride = 1;
  few.element_stride = few.rows;
  few.group_rows = 500;
  few.group_stride = 500 * few.cols;
  Problem many = few;
  many.rows = many.element_stride = 10000000;
  EXPECT_EQ(plan_of(few).workspace_bytes, plan_of(many).workspace_bytes);
  EXPECT_EQ(plan_of(few).family, plan_of(some_problem()).family);
  // Of long rows, fewer are copied at a time.
  many.cols = 1000000;
  const Plan plan = plan_of(many, 1);
  EXPECT_LE(plan.workspace_bytes, std::size_t{20} << 20);
}

TEST(Plans, OfTheReferenceSayReference) {
  Plan plan;
  ASSERT_TRUE(rtopk::make_plan(some_problem(), rtopk::Traits{}, rtopk::Family::reference, plan).ok());
  EXPECT_EQ(plan.family, rtopk::Family::reference);
  EXPECT_EQ(plan.threads, 1);
}

TEST(Plans, OfThePapersSearchBisectWherePassesAreCheap) {
  if (!rtopk::build_info().highway) GTEST_SKIP() << "without Highway every plan is the reference";
  const auto family_of = [](std::int64_t cols, std::int32_t max_iter, double epsilon = 0) {
    Problem problem = some_problem();
    problem.cols = cols;
    problem.max_iter = max_iter;
    problem.epsilon = epsilon;
    return plan_of(problem).family;
  };
  EXPECT_EQ(family_of(256, 5), rtopk::Family::cpu_bisection);
  EXPECT_EQ(family_of(4096, 40), rtopk::Family::cpu_bisection);
  EXPECT_EQ(family_of(65536, 2), rtopk::Family::cpu_bisection);
  // What many passes over long rows would select is derived from the exact selection.
  EXPECT_EQ(family_of(65536, 12), rtopk::Family::cpu_stream);
  EXPECT_EQ(family_of(1 << 20, 2), rtopk::Family::cpu_stream);
  EXPECT_EQ(family_of(65536, 0, 1e-3), rtopk::Family::cpu_stream);
  Problem problem = some_problem();
  problem.search = rtopk::Search::bisection;
  EXPECT_EQ(plan_of(problem).family, rtopk::Family::cpu_bisection);
  EXPECT_NE(plan_of(some_problem()).family, rtopk::Family::cpu_bisection);
}

TEST(Plans, OfManyShortRowsSortThemInLanes) {
  if (!rtopk::build_info().highway) GTEST_SKIP() << "without Highway every plan is the reference";
  const auto family_of = [](std::int64_t rows, std::int64_t cols, std::int64_t k, rtopk::Order order) {
    Problem problem = some_problem();
    problem.rows = rows;
    problem.cols = cols;
    problem.k = k;
    problem.order = order;
    return plan_of(problem).family;
  };
  using rtopk::Order;
  for (const rtopk::Order order : {Order::unsorted, Order::by_value, Order::by_index}) {
    EXPECT_EQ(family_of(4096, 8, 2, order), Family::cpu_lanes);
    EXPECT_EQ(family_of(65536, 1, 1, order), Family::cpu_lanes);
    EXPECT_EQ(family_of(65536, 8, 8, order), Family::cpu_lanes);
    EXPECT_EQ(family_of(1, 60, 2, order), Family::cpu_row);
    EXPECT_EQ(family_of(65536, 256, 32, order), Family::cpu_row);
  }
  EXPECT_EQ(family_of(65536, 48, 24, Order::by_value), Family::cpu_lanes);
  EXPECT_EQ(family_of(65536, 64, 32, Order::unsorted), Family::cpu_row);
  // Wider vectors sort more rows at once, as long as there are rows to fill them.
  const bool wide = std::string_view(rtopk::build_info().cpu_target).substr(0, 4) == "AVX3";
  EXPECT_EQ(family_of(65536, 48, 24, Order::unsorted), wide ? Family::cpu_lanes : Family::cpu_row);
  EXPECT_EQ(family_of(65536, 64, 16, Order::unsorted), wide ? Family::cpu_lanes : Family::cpu_row);
  EXPECT_EQ(family_of(65536, 96, 12, Order::by_value), wide ? Family::cpu_lanes : Family::cpu_row);
  EXPECT_EQ(family_of(31, 62, 16, Order::unsorted), wide ? Family::cpu_lanes : Family::cpu_row);
  EXPECT_EQ(family_of(24, 48, 24, Order::unsorted), Family::cpu_row);
}

TEST(Plans, OfFewElementsOfARowLookForTheBest) {
  if (!rtopk::build_info().highway) GTEST_SKIP() << "without Highway every plan is the reference";
  Problem problem = some_problem();
  problem.k = 1;
  for (const std::int64_t cols : {32, 256, 100000}) {
    problem.cols = cols;
    EXPECT_EQ(plan_of(problem).family, Family::cpu_best) << cols;
  }
  Plan plan;
  EXPECT_EQ(std::string(rtopk::make_plan(problem, Family::cpu_bisection, plan).text()),
            "family is cpu_bisection; accepted for this problem on a CPU: cpu_best, cpu_row, cpu_stream or reference");
  problem.k = 8;
  problem.cols = 2048;
  EXPECT_EQ(plan_of(problem).family, Family::cpu_best);
  problem.cols = 2049;
  EXPECT_EQ(plan_of(problem).family, Family::cpu_stream);
  problem.cols = 255;
  EXPECT_EQ(plan_of(problem).family, Family::cpu_row);
  problem.k = 9;
  EXPECT_FALSE(rtopk::make_plan(problem, Family::cpu_best, plan).ok());
}

TEST(Plans, SplitRowsThatAreFewerThanThreads) {
  if (!rtopk::build_info().highway) GTEST_SKIP() << "without Highway every plan is the reference";
  Problem problem = some_problem();
  problem.rows = 1;
  problem.cols = 1000000;
  problem.k = 50;
  const auto parts_with = [](const Problem& of, std::int32_t threads) {
    rtopk::Traits traits;
    traits.threads = threads;
    Plan plan;
    EXPECT_TRUE(rtopk::make_plan(of, traits, plan).ok());
    EXPECT_LE(plan.threads, threads);
    return plan.parts;
  };
  EXPECT_EQ(parts_with(problem, 1), 0);
  EXPECT_EQ(parts_with(problem, 2), 4);
  EXPECT_EQ(parts_with(problem, 64), 1000000 / 32768);
  const auto stays_whole = [&](auto change) {
    Problem other = problem;
    change(other);
    return parts_with(other, 2) == 0;
  };
  EXPECT_TRUE(stays_whole([](Problem& p) { p.rows = 2; }));
  EXPECT_TRUE(stays_whole([](Problem& p) { p.cols = 500000; }));
  EXPECT_TRUE(stays_whole([](Problem& p) { p.k = 100000; }));
  EXPECT_TRUE(stays_whole([](Problem& p) { p.passes = true; }));
  EXPECT_TRUE(stays_whole([](Problem& p) { p.form = rtopk::Form::mask; }));
  EXPECT_TRUE(stays_whole([](Problem& p) { p.element_stride = 2; }));
  EXPECT_TRUE(stays_whole([](Problem& p) { p.max_iter = 3; }));
}

TEST(Plans, TakeTheFamilyThatIsAskedFor) {
  if (!rtopk::build_info().highway) GTEST_SKIP() << "without Highway every plan is the reference";
  Problem problem = some_problem();
  problem.cols = 256;
  for (const Family family : {Family::reference, Family::cpu_lanes, Family::cpu_row, Family::cpu_stream}) {
    Plan plan;
    const rtopk::Status status = rtopk::make_plan(problem, family, plan);
    ASSERT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(plan.family, family);
  }
  const auto refusal = [](const Problem& asked, Family family) {
    Plan plan;
    return std::string(rtopk::make_plan(asked, family, plan).text());
  };
  EXPECT_EQ(refusal(problem, Family::cpu_bisection),
            "family is cpu_bisection; accepted for this problem on a CPU: cpu_lanes, cpu_row, cpu_stream or reference");
  EXPECT_EQ(refusal(problem, Family::cuda_warp),
            "family is cuda_warp; accepted for this problem on a CPU: cpu_lanes, cpu_row, cpu_stream or reference");
  problem.cols = 257;
  EXPECT_EQ(refusal(problem, Family::cpu_lanes),
            "family is cpu_lanes; accepted for this problem on a CPU: cpu_row, cpu_stream or reference");
  problem.max_iter = 3;
  EXPECT_EQ(refusal(problem, Family::cpu_row), "");
  problem.search = rtopk::Search::bisection;
  EXPECT_EQ(refusal(problem, Family::cpu_row),
            "family is cpu_row; accepted for this problem on a CPU: cpu_bisection or reference");
}

/// The lines of a plan's text.
std::set<std::string> lines_of(const Plan& plan) {
  std::istringstream text(rtopk::to_string(plan));
  std::set<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.insert(line);
  return lines;
}

TEST(PlanText, HasOneNameAndValuePerLine) {
  Problem problem = some_problem();
  problem.row_stride = 1000;
  problem.direction = rtopk::Direction::smallest;
  const Plan plan = plan_of(problem);
  const auto lines = lines_of(plan);
  for (const std::string& line : lines) {
    EXPECT_EQ(std::count(line.begin(), line.end(), '='), 1) << line;
  }
  for (const char* expected : {"rows=1000", "cols=768", "k=32", "row_stride=1000", "dtype=f32", "direction=smallest",
                               "order=unsorted", "form=pairs", "index_type=i64", "search=fast"}) {
    EXPECT_TRUE(lines.contains(expected)) << expected << " is not in\n" << rtopk::to_string(plan);
  }
  EXPECT_TRUE(lines.contains("family=" + std::string(rtopk::name(plan.family))));
  EXPECT_TRUE(lines.contains("threads=" + std::to_string(plan.threads)));
  EXPECT_TRUE(lines.contains("workspace_bytes=" + std::to_string(plan.workspace_bytes)));
}

TEST(PlanText, ShowsWhereTheInputLies) {
  for (const std::string& line : lines_of(plan_of(some_problem()))) {
    EXPECT_FALSE(line.starts_with("element_stride") || line.starts_with("group")) << line;
  }
  Problem problem = some_problem();
  problem.row_stride = 1;
  problem.element_stride = 64;
  problem.group_rows = 50;
  problem.group_stride = 64 * 768;
  const auto lines = lines_of(plan_of(problem));
  for (const char* expected : {"row_stride=1", "element_stride=64", "group_rows=50", "group_stride=49152"}) {
    EXPECT_TRUE(lines.contains(expected)) << expected;
  }
  problem.row_stride = 0;
  EXPECT_TRUE(lines_of(plan_of(problem)).contains("row_stride=" + std::to_string(64 * 768)));
}

TEST(PlanText, ShowsEarlyStopping) {
  Problem problem = some_problem();
  problem.max_iter = 7;
  EXPECT_TRUE(lines_of(plan_of(problem)).contains("max_iter=7"));
  EXPECT_TRUE(lines_of(plan_of(problem)).contains("rule=threshold_first"));
  problem.rule = rtopk::Rule::printed;
  EXPECT_TRUE(lines_of(plan_of(problem)).contains("rule=printed"));
  problem.max_iter = 0;
  problem.epsilon = 0.125;
  const auto lines = lines_of(plan_of(problem));
  EXPECT_TRUE(lines.contains("epsilon=0.125"));
  EXPECT_FALSE(lines.contains("rule=printed"));  // it is of max_iter
}

TEST(PlanText, DiffersWherePlansDiffer) {
  Problem other = some_problem();
  other.dtype = rtopk::DType::bf16;
  EXPECT_NE(rtopk::to_string(plan_of(some_problem())), rtopk::to_string(plan_of(other)));
}

TEST(Names, AreTheEnumerators) {
  using namespace rtopk;
  EXPECT_STREQ(name(DType::bf16), "bf16");
  EXPECT_STREQ(name(Direction::smallest), "smallest");
  EXPECT_STREQ(name(Order::by_value), "by_value");
  EXPECT_STREQ(name(Form::cbsr), "cbsr");
  EXPECT_STREQ(name(IndexType::u16), "u16");
  EXPECT_STREQ(name(Search::bisection), "bisection");
  EXPECT_STREQ(name(Rule::printed), "printed");
  EXPECT_STREQ(name(DeviceKind::cuda), "cuda");
  EXPECT_STREQ(name(Family::cpu_stream), "cpu_stream");
  EXPECT_STREQ(name(Family::cpu_lanes), "cpu_lanes");
  EXPECT_STREQ(name(static_cast<DType>(99)), "?");
  EXPECT_STREQ(name(static_cast<Family>(99)), "?");
}

TEST(Sizes, OfTypes) {
  using namespace rtopk;
  static_assert(size_of(DType::f16) == 2 && size_of(DType::f64) == 8 && size_of(static_cast<DType>(99)) == 0);
  static_assert(size_of(IndexType::u8) == 1 && size_of(static_cast<IndexType>(99)) == 0);
  static_assert(selector_type(256) == IndexType::u8 && selector_type(257) == IndexType::u16);
}

TEST(Build, SaysWhatItIs) {
  const std::string version = std::to_string(RTOPK_VERSION_MAJOR) + "." + std::to_string(RTOPK_VERSION_MINOR) + "." +
                              std::to_string(RTOPK_VERSION_PATCH);
  EXPECT_EQ(rtopk::version(), version);
  const rtopk::BuildInfo info = rtopk::build_info();
  ASSERT_NE(std::strlen(info.cpu_target), 0u);
  if (!info.highway) {
    EXPECT_STREQ(info.cpu_target, "scalar");
    return;
  }
  // The first of the targets is the one in use.
  const std::string_view targets = info.cpu_targets;
  EXPECT_EQ(targets.substr(0, targets.find(' ')), info.cpu_target);
}

}  // namespace
}  // namespace rtopk_test
