// The C API: the same results and the same errors as the C++ API.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <rtopk/rtopk.h>
#include <rtopk/rtopk.hpp>

#include "enumerators.hpp"

namespace rtopk_test {
namespace {

static_assert(RTOPK_F32 == static_cast<int>(rtopk::DType::f32) && RTOPK_F16 == static_cast<int>(rtopk::DType::f16) &&
              RTOPK_BF16 == static_cast<int>(rtopk::DType::bf16) && RTOPK_F64 == static_cast<int>(rtopk::DType::f64) &&
              RTOPK_I32 == static_cast<int>(rtopk::DType::i32));
static_assert(RTOPK_SMALLEST == static_cast<int>(rtopk::Direction::smallest));
static_assert(RTOPK_BY_VALUE == static_cast<int>(rtopk::Order::by_value) &&
              RTOPK_BY_INDEX == static_cast<int>(rtopk::Order::by_index));
static_assert(RTOPK_DENSE == static_cast<int>(rtopk::Form::dense) &&
              RTOPK_MASK == static_cast<int>(rtopk::Form::mask) && RTOPK_CBSR == static_cast<int>(rtopk::Form::cbsr));
static_assert(RTOPK_INDEX_I32 == static_cast<int>(rtopk::IndexType::i32) &&
              RTOPK_INDEX_I64 == static_cast<int>(rtopk::IndexType::i64) &&
              RTOPK_INDEX_U8 == static_cast<int>(rtopk::IndexType::u8) &&
              RTOPK_INDEX_U16 == static_cast<int>(rtopk::IndexType::u16));
static_assert(RTOPK_SEARCH_BISECTION == static_cast<int>(rtopk::Search::bisection));
static_assert(RTOPK_RULE_PRINTED == static_cast<int>(rtopk::Rule::printed));
static_assert(RTOPK_CUDA == static_cast<int>(rtopk::DeviceKind::cuda));
static_assert(RTOPK_WORKSPACE_TOO_SMALL == static_cast<int>(rtopk::StatusCode::workspace_too_small) &&
              RTOPK_NOT_SUPPORTED == static_cast<int>(rtopk::StatusCode::not_supported));

rtopk_problem good_problem() {
  rtopk_problem problem;
  std::memset(&problem, 0x7f, sizeof problem);  // init must set every field
  rtopk_problem_init(&problem);
  problem.rows = 2;
  problem.cols = 6;
  problem.k = 2;
  problem.order = RTOPK_BY_VALUE;
  return problem;
}

void expect_refusal(const rtopk_status& status, std::int32_t code, const char* argument) {
  EXPECT_EQ(status.code, code) << status.text;
  EXPECT_NE(std::string(status.text).find(argument), std::string::npos) << '"' << status.text << '"';
}

// With the assertions above: C has every enumerator of C++.
TEST(CApi, HasEveryEnumerator) {
  EXPECT_EQ(enumerators<rtopk::DType>().size(), RTOPK_I32 + 1u);
  EXPECT_EQ(enumerators<rtopk::Direction>().size(), RTOPK_SMALLEST + 1u);
  EXPECT_EQ(enumerators<rtopk::Order>().size(), RTOPK_BY_INDEX + 1u);
  EXPECT_EQ(enumerators<rtopk::Form>().size(), RTOPK_CBSR + 1u);
  EXPECT_EQ(enumerators<rtopk::IndexType>().size(), RTOPK_INDEX_U16 + 1u);
  EXPECT_EQ(enumerators<rtopk::Search>().size(), RTOPK_SEARCH_BISECTION + 1u);
  EXPECT_EQ(enumerators<rtopk::Rule>().size(), RTOPK_RULE_PRINTED + 1u);
  EXPECT_EQ(enumerators<rtopk::DeviceKind>().size(), RTOPK_CUDA + 1u);
}

TEST(CApi, DefaultsAreThoseOfCpp) {
  rtopk_problem c;
  std::memset(&c, 0x7f, sizeof c);
  rtopk_problem_init(&c);
  const rtopk::Problem cpp;
  EXPECT_EQ(c.rows, cpp.rows);
  EXPECT_EQ(c.cols, cpp.cols);
  EXPECT_EQ(c.k, cpp.k);
  EXPECT_EQ(c.row_stride, cpp.row_stride);
  EXPECT_EQ(c.element_stride, cpp.element_stride);
  EXPECT_EQ(c.group_rows, cpp.group_rows);
  EXPECT_EQ(c.group_stride, cpp.group_stride);
  EXPECT_EQ(c.dtype, static_cast<int>(cpp.dtype));
  EXPECT_EQ(c.direction, static_cast<int>(cpp.direction));
  EXPECT_EQ(c.order, static_cast<int>(cpp.order));
  EXPECT_EQ(c.form, static_cast<int>(cpp.form));
  EXPECT_EQ(c.index_type, static_cast<int>(cpp.index_type));
  EXPECT_EQ(c.values != 0, cpp.values);
  EXPECT_EQ(c.indices != 0, cpp.indices);
  EXPECT_EQ(c.passes != 0, cpp.passes);
  EXPECT_EQ(c.max_iter, cpp.max_iter);
  EXPECT_EQ(c.search, static_cast<int>(cpp.search));
  EXPECT_EQ(c.rule, static_cast<int>(cpp.rule));
  EXPECT_EQ(c.epsilon, cpp.epsilon);
  EXPECT_EQ(c.magnitude != 0, cpp.magnitude);
  EXPECT_EQ(c.thresholds != 0, cpp.thresholds);
  EXPECT_EQ(c.lengths, static_cast<int>(cpp.ragged.lengths));
  EXPECT_EQ(c.starts, static_cast<int>(cpp.ragged.starts));
  EXPECT_EQ(c.offsets, static_cast<int>(cpp.ragged.offsets));
  EXPECT_EQ(c.row_k, static_cast<int>(cpp.ragged.k));
  EXPECT_EQ(c.elements, cpp.ragged.elements);
  EXPECT_EQ(c.index_kind, static_cast<int>(cpp.index_map.kind));
  EXPECT_EQ(c.map_type, static_cast<int>(cpp.index_map.type));
  EXPECT_EQ(c.map_stride, cpp.index_map.stride);
  EXPECT_EQ(c.pages, cpp.index_map.pages);
  EXPECT_EQ(c.page_size, cpp.index_map.page_size);
  EXPECT_EQ(c.tables, cpp.index_map.tables);
  EXPECT_EQ(c.table_of, static_cast<int>(cpp.index_map.table_of));
  EXPECT_EQ(c.device_kind, static_cast<int>(cpp.device.kind));
  EXPECT_EQ(c.device_ordinal, cpp.device.ordinal);
  rtopk_problem_init(nullptr);  // does nothing
}

TEST(CApi, Selects) {
  const float matrix[] = {1, 5, 2, 5, 0, 3, -1, -2, -3, -4, -5, -6};
  rtopk_problem problem = good_problem();
  problem.passes = 1;
  rtopk_plan plan;
  ASSERT_EQ(rtopk_make_plan(&problem, &plan).code, RTOPK_OK);
  std::vector<unsigned char> workspace(rtopk_workspace_bytes(&plan));
  float values[4] = {};
  std::int64_t indices[4] = {};
  std::int32_t passes[2] = {-1, -1};
  rtopk_output output = {};
  output.values = values;
  output.indices = indices;
  output.passes = passes;
  const rtopk_status status = rtopk_run(&plan, matrix, &output, workspace.data(), workspace.size(), nullptr);
  ASSERT_EQ(status.code, RTOPK_OK) << status.text;
  EXPECT_STREQ(status.text, "");
  EXPECT_EQ(std::vector<float>(values, values + 4), (std::vector<float>{5, 5, -1, -2}));
  EXPECT_EQ(std::vector<std::int64_t>(indices, indices + 4), (std::vector<std::int64_t>{1, 3, 0, 1}));
  EXPECT_GE(passes[0], 0);
  EXPECT_GE(passes[1], 0);
}

TEST(CApi, PassesEveryFieldOn) {
  const double matrix[] = {4, 1, 3, 2, 9, 8, 7, 6, 99, 99};  // rows of 4 elements, 5 apart
  rtopk_problem problem = good_problem();
  problem.cols = 4;
  problem.row_stride = 5;
  problem.dtype = RTOPK_F64;
  problem.direction = RTOPK_SMALLEST;
  problem.form = RTOPK_CBSR;
  problem.order = RTOPK_BY_INDEX;
  problem.index_type = RTOPK_INDEX_U8;
  problem.max_iter = 1;  // 0.5 * -4 + 0.5 * -1 = -2.5: exactly the two smallest
  problem.passes = 1;
  rtopk_plan plan;
  ASSERT_EQ(rtopk_make_plan_threads(&problem, 1, &plan).code, RTOPK_OK);
  std::vector<unsigned char> workspace(rtopk_workspace_bytes(&plan));
  double values[4] = {};
  std::uint8_t selectors[4] = {};
  std::int32_t passes[2] = {};
  rtopk_output output = {};
  output.values = values;
  output.indices = selectors;
  output.passes = passes;
  const rtopk_status status = rtopk_run(&plan, matrix, &output, workspace.data(), workspace.size(), nullptr);
  ASSERT_EQ(status.code, RTOPK_OK) << status.text;
  EXPECT_EQ(std::vector<double>(values, values + 2), (std::vector<double>{1, 2}));
  EXPECT_EQ(selectors[0], 1);
  EXPECT_EQ(selectors[1], 3);
  EXPECT_EQ(passes[0], 1);
}

TEST(CApi, PassesTheRuleOn) {
  const float row[] = {1, 0, 8, 2};  // the threshold is 4, which one element reaches
  rtopk_problem problem = good_problem();
  problem.rows = 1;
  problem.cols = 4;
  problem.order = RTOPK_BY_INDEX;
  problem.values = 0;
  problem.max_iter = 1;
  const auto selected = [&](std::int32_t rule) {
    problem.rule = rule;
    rtopk_plan plan;
    EXPECT_EQ(rtopk_make_plan(&problem, &plan).code, RTOPK_OK);
    std::vector<unsigned char> workspace(rtopk_workspace_bytes(&plan));
    std::vector<std::int64_t> indices(2);
    rtopk_output output = {};
    output.indices = indices.data();
    EXPECT_EQ(rtopk_run(&plan, row, &output, workspace.data(), workspace.size(), nullptr).code, RTOPK_OK);
    return indices;
  };
  EXPECT_EQ(selected(RTOPK_RULE_THRESHOLD_FIRST), (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(selected(RTOPK_RULE_PRINTED), (std::vector<std::int64_t>{0, 1}));
}

// Selects the maximum of each column of two 3 x 2 matrices.
TEST(CApi, PassesStridesOn) {
  const float matrices[] = {1, 20, 3, 10, 2, 0, -1, -20, -3, -10, -2, -30};
  rtopk_problem problem = good_problem();
  problem.rows = 4;
  problem.cols = 3;
  problem.k = 1;
  problem.row_stride = 1;
  problem.element_stride = 2;
  problem.group_rows = 2;
  problem.group_stride = 6;
  rtopk_plan plan;
  ASSERT_EQ(rtopk_make_plan(&problem, &plan).code, RTOPK_OK);
  std::vector<unsigned char> workspace(rtopk_workspace_bytes(&plan));
  float values[4] = {};
  std::int64_t indices[4] = {};
  rtopk_output output = {};
  output.values = values;
  output.indices = indices;
  const rtopk_status status = rtopk_run(&plan, matrices, &output, workspace.data(), workspace.size(), nullptr);
  ASSERT_EQ(status.code, RTOPK_OK) << status.text;
  EXPECT_EQ(std::vector<float>(values, values + 4), (std::vector<float>{3, 20, -1, -10}));
  EXPECT_EQ(std::vector<std::int64_t>(indices, indices + 4), (std::vector<std::int64_t>{1, 0, 0, 1}));
}

TEST(CApi, UsesTheExecutor) {
  const float matrix[] = {1, 5, 2, 5, 0, 3, -1, -2, -3, -4, -5, -6};
  const rtopk_problem problem = good_problem();
  rtopk_plan plan;
  ASSERT_EQ(rtopk_make_plan(&problem, &plan).code, RTOPK_OK);
  std::vector<unsigned char> workspace(rtopk_workspace_bytes(&plan));
  float values[4] = {};
  std::int64_t indices[4] = {};
  rtopk_output output = {};
  output.values = values;
  output.indices = indices;
  int tasks = 0;
  rtopk_executor executor = {};
  executor.context = &tasks;
  executor.parallel_for = [](void* context, std::int64_t count, void (*task)(void*, std::int64_t), void* task_context) {
    for (std::int64_t i = 0; i < count; ++i, ++*static_cast<int*>(context)) task(task_context, i);
  };
  rtopk_launch launch = {};
  launch.executor = &executor;
  ASSERT_EQ(rtopk_run(&plan, matrix, &output, workspace.data(), workspace.size(), &launch).code, RTOPK_OK);
  EXPECT_GE(tasks, 1);
  EXPECT_EQ(indices[0], 1);
}

TEST(CApi, RefusesBadProblems) {
  struct Bad {
    std::int32_t code;
    const char* argument;
    std::function<void(rtopk_problem&)> spoil;
  };
  const Bad all[] = {
      {RTOPK_INVALID_ARGUMENT, "rows", [](auto& p) { p.rows = -1; }},
      {RTOPK_INVALID_ARGUMENT, "cols", [](auto& p) { p.cols = 0; }},
      {RTOPK_INVALID_ARGUMENT, "k is", [](auto& p) { p.k = 7; }},
      {RTOPK_INVALID_ARGUMENT, "row_stride", [](auto& p) { p.row_stride = 5; }},
      {RTOPK_INVALID_ARGUMENT, "element_stride", [](auto& p) { p.element_stride = -1; }},
      {RTOPK_INVALID_ARGUMENT, "group_rows", [](auto& p) { p.group_rows = -1; }},
      {RTOPK_INVALID_ARGUMENT, "group_stride", [](auto& p) { p.group_stride = 5; }},
      {RTOPK_INVALID_ARGUMENT, "dtype", [](auto& p) { p.dtype = RTOPK_I32 + 1; }},
      {RTOPK_INVALID_ARGUMENT, "dtype", [](auto& p) { p.dtype = -1; }},
      {RTOPK_INVALID_ARGUMENT, "dtype", [](auto& p) { p.dtype = 256; }},  // 0 if truncated to eight bits
      {RTOPK_INVALID_ARGUMENT, "direction", [](auto& p) { p.direction = 1 << 16; }},
      {RTOPK_INVALID_ARGUMENT, "order", [](auto& p) { p.order = RTOPK_BY_INDEX + 1; }},
      {RTOPK_INVALID_ARGUMENT, "form", [](auto& p) { p.form = RTOPK_CBSR + 1; }},
      {RTOPK_INVALID_ARGUMENT, "index_type", [](auto& p) { p.index_type = -2147483647 - 1; }},
      {RTOPK_INVALID_ARGUMENT, "search", [](auto& p) { p.search = RTOPK_SEARCH_BISECTION + 1; }},
      {RTOPK_INVALID_ARGUMENT, "rule", [](auto& p) { p.rule = RTOPK_RULE_PRINTED + 1; }},
      {RTOPK_INVALID_ARGUMENT, "device", [](auto& p) { p.device_kind = 257; }},
      {RTOPK_INVALID_ARGUMENT, "device", [](auto& p) { p.device_ordinal = 1; }},
      {RTOPK_INVALID_ARGUMENT, "epsilon", [](auto& p) { p.epsilon = 2; }},
      {RTOPK_INVALID_ARGUMENT, "max_iter", [](auto& p) { p.max_iter = -1; }},
  };
  for (const Bad& bad : all) {
    rtopk_problem problem = good_problem();
    bad.spoil(problem);
    rtopk_plan plan;
    std::memset(&plan, 0x33, sizeof plan);
    const rtopk_plan before = plan;
    expect_refusal(rtopk_make_plan(&problem, &plan), bad.code, bad.argument);
    expect_refusal(rtopk_make_plan_threads(&problem, 2, &plan), bad.code, bad.argument);
    EXPECT_EQ(std::memcmp(&plan, &before, sizeof plan), 0) << "a refused problem changed the plan";
  }
  const rtopk_problem good = good_problem();
  rtopk_plan plan;
  expect_refusal(rtopk_make_plan_threads(&good, 0, &plan), RTOPK_INVALID_ARGUMENT, "threads");
}

TEST(CApi, RefusesNullPointers) {
  const rtopk_problem problem = good_problem();
  rtopk_plan plan;
  expect_refusal(rtopk_make_plan(nullptr, &plan), RTOPK_INVALID_ARGUMENT, "problem");
  expect_refusal(rtopk_make_plan(&problem, nullptr), RTOPK_INVALID_ARGUMENT, "plan");
  expect_refusal(rtopk_make_plan_threads(nullptr, 1, &plan), RTOPK_INVALID_ARGUMENT, "problem");
  expect_refusal(rtopk_make_plan_threads(&problem, 1, nullptr), RTOPK_INVALID_ARGUMENT, "plan");
  ASSERT_EQ(rtopk_make_plan(&problem, &plan).code, RTOPK_OK);
  const float matrix[12] = {};
  float values[4] = {};
  std::int64_t indices[4] = {};
  std::vector<unsigned char> workspace(rtopk_workspace_bytes(&plan) + 1);
  rtopk_output output = {};
  output.values = values;
  expect_refusal(rtopk_run(nullptr, matrix, &output, workspace.data(), workspace.size(), nullptr),
                 RTOPK_INVALID_ARGUMENT, "plan");
  expect_refusal(rtopk_run(&plan, matrix, nullptr, workspace.data(), workspace.size(), nullptr), RTOPK_INVALID_ARGUMENT,
                 "output");
  expect_refusal(rtopk_run(&plan, matrix, &output, workspace.data(), workspace.size(), nullptr), RTOPK_INVALID_ARGUMENT,
                 "indices");
  output.indices = indices;
  expect_refusal(rtopk_run(&plan, nullptr, &output, workspace.data(), workspace.size(), nullptr),
                 RTOPK_INVALID_ARGUMENT, "input");
  if (rtopk_workspace_bytes(&plan) > 0) {
    expect_refusal(rtopk_run(&plan, matrix, &output, nullptr, 0, nullptr), RTOPK_WORKSPACE_TOO_SMALL, "workspace");
  }
  EXPECT_EQ(rtopk_workspace_bytes(nullptr), 0u);
}

TEST(CApi, RefusesAPlanThatWasNeverMade) {
  rtopk_plan plan;
  rtopk_output output = {};
  for (const int byte : {0x00, 0xff, 0x7f}) {
    std::memset(&plan, byte, sizeof plan);
    EXPECT_NE(rtopk_run(&plan, nullptr, &output, nullptr, 0, nullptr).code, RTOPK_OK);
  }
}

TEST(CApi, WritesThePlanAsText) {
  const rtopk_problem problem = good_problem();
  rtopk_plan plan;
  ASSERT_EQ(rtopk_make_plan(&problem, &plan).code, RTOPK_OK);
  const std::size_t length = rtopk_plan_text(&plan, nullptr, 0);
  ASSERT_GT(length, 20u);
  std::string whole(length + 1, '#');
  EXPECT_EQ(rtopk_plan_text(&plan, whole.data(), whole.size()), length);
  EXPECT_EQ(whole.back(), '\0');
  EXPECT_NE(whole.find("cols=6\n"), std::string::npos);
  char cut[10];
  std::memset(cut, '#', sizeof cut);
  EXPECT_EQ(rtopk_plan_text(&plan, cut, 8), length);
  EXPECT_EQ(std::string(cut), whole.substr(0, 7));
  EXPECT_EQ(cut[8], '#');  // nothing is written past the given size
  EXPECT_EQ(rtopk_plan_text(nullptr, cut, 8), 0u);
}

TEST(CApi, SaysItsVersion) { EXPECT_STREQ(rtopk_version(), rtopk::version()); }

}  // namespace
}  // namespace rtopk_test
