// Invalid options and arrays of general rows, in C++ and in C: a text that names the argument, and nothing written.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <rtopk/rtopk.h>
#include <rtopk/rtopk.hpp>

#include "enumerators.hpp"
#include "refusals.hpp"

namespace rtopk_test {
namespace {

using rtopk::ArrayType;
using rtopk::Form;
using rtopk::IndexKind;
using rtopk::IndexType;
using rtopk::Problem;

constexpr rtopk::Device kGpu{rtopk::DeviceKind::cuda, 0};

Problem plain_problem() {
  Problem problem;
  problem.rows = 4;
  problem.cols = 40;
  problem.k = 8;
  return problem;
}

Problem segments() {
  Problem problem = plain_problem();
  problem.ragged = {.offsets = ArrayType::i64, .elements = 100};
  return problem;
}

Problem paged() {
  Problem problem = plain_problem();
  problem.index_map = {.kind = IndexKind::pages, .type = ArrayType::i32, .pages = 3, .page_size = 16};
  return problem;
}

Problem with_ids() {
  Problem problem = plain_problem();
  problem.index_map = {.kind = IndexKind::ids, .type = ArrayType::i64};
  return problem;
}

rtopk_problem to_c(const Problem& p) {
  rtopk_problem c;
  rtopk_problem_init(&c);
  c.rows = p.rows;
  c.cols = p.cols;
  c.k = p.k;
  c.row_stride = p.row_stride;
  c.element_stride = p.element_stride;
  c.group_rows = p.group_rows;
  c.group_stride = p.group_stride;
  c.form = static_cast<std::int32_t>(p.form);
  c.index_type = static_cast<std::int32_t>(p.index_type);
  c.values = p.values ? 1 : 0;
  c.indices = p.indices ? 1 : 0;
  c.magnitude = p.magnitude ? 1 : 0;
  c.thresholds = p.thresholds ? 1 : 0;
  c.lengths = static_cast<std::int32_t>(p.ragged.lengths);
  c.starts = static_cast<std::int32_t>(p.ragged.starts);
  c.offsets = static_cast<std::int32_t>(p.ragged.offsets);
  c.row_k = static_cast<std::int32_t>(p.ragged.k);
  c.elements = p.ragged.elements;
  c.index_kind = static_cast<std::int32_t>(p.index_map.kind);
  c.map_type = static_cast<std::int32_t>(p.index_map.type);
  c.map_stride = p.index_map.stride;
  c.pages = p.index_map.pages;
  c.page_size = p.index_map.page_size;
  c.tables = p.index_map.tables;
  c.table_of = static_cast<std::int32_t>(p.index_map.table_of);
  return c;
}

struct BadRows {
  const char* argument;  ///< What the text begins with.
  Problem good;
  std::function<void(Problem&)> spoil;
};

constexpr auto kNoArrayType = static_cast<ArrayType>(3);

const BadRows kBadRows[] = {
    {"ragged.lengths", plain_problem(), [](Problem& p) { p.ragged.lengths = kNoArrayType; }},
    {"ragged.starts", plain_problem(), [](Problem& p) { p.ragged.starts = static_cast<ArrayType>(200); }},
    {"ragged.offsets", plain_problem(), [](Problem& p) { p.ragged.offsets = kNoArrayType; }},
    {"ragged.k", plain_problem(), [](Problem& p) { p.ragged.k = kNoArrayType; }},
    {"ragged.offsets", segments(), [](Problem& p) { p.ragged.lengths = ArrayType::i32; }},
    {"ragged.offsets", segments(), [](Problem& p) { p.ragged.starts = ArrayType::i64; }},
    {"ragged.elements", segments(), [](Problem& p) { p.ragged.elements = -1; }},
    {"ragged.elements", segments(), [](Problem& p) { p.ragged.elements = (std::int64_t{1} << 60) + 1; }},
    {"ragged.elements", plain_problem(), [](Problem& p) { p.ragged.elements = 160; }},
    {"row_stride", segments(), [](Problem& p) { p.row_stride = 50; }},
    {"form", segments(), [](Problem& p) { p.form = Form::dense; }},
    {"form", segments(), [](Problem& p) { p.form = Form::mask; }},
    {"index_type", segments(),
     [](Problem& p) {
       p.index_type = IndexType::i32;
       p.ragged.elements = (std::int64_t{1} << 31) + 1;
     }},
    {"element_stride", plain_problem(),
     [](Problem& p) {
       p.ragged.lengths = ArrayType::i32;
       p.element_stride = 2;
     }},
    {"element_stride or group_rows", plain_problem(),
     [](Problem& p) {
       p.ragged.k = ArrayType::i32;
       p.group_rows = 2;
       p.group_stride = 80;
     }},
    {"form", plain_problem(),
     [](Problem& p) {
       p.ragged.lengths = ArrayType::i32;
       p.form = Form::cbsr;
       p.index_type = IndexType::u8;
     }},
    {"thresholds", plain_problem(),
     [](Problem& p) {
       p.thresholds = true;
       p.form = Form::mask;
     }},
    {"index_map.type", with_ids(), [](Problem& p) { p.index_map.type = kNoArrayType; }},
    {"index_map.type", with_ids(), [](Problem& p) { p.index_map.type = ArrayType::none; }},
    {"index_map.kind", with_ids(), [](Problem& p) { p.index_map.kind = static_cast<IndexKind>(4); }},
    {"index_map.kind", plain_problem(), [](Problem& p) { p.index_map.type = ArrayType::i32; }},
    {"index_map.kind", plain_problem(), [](Problem& p) { p.index_map.stride = 40; }},
    {"index_map.kind", with_ids(), [](Problem& p) { p.index_map.pages = 1; }},
    {"index_map.kind", with_ids(), [](Problem& p) { p.index_map.page_size = 1; }},
    {"index_map.kind", with_ids(), [](Problem& p) { p.index_map.tables = 4; }},
    {"index_map.kind", with_ids(), [](Problem& p) { p.index_map.table_of = ArrayType::i32; }},
    {"index_map.stride", with_ids(), [](Problem& p) { p.index_map.stride = 39; }},
    {"index_map.stride", with_ids(), [](Problem& p) { p.index_map.stride = -40; }},
    {"index_map.stride", with_ids(), [](Problem& p) { p.index_map.stride = std::int64_t{1} << 58; }},
    {"index_map.stride", with_ids(),
     [](Problem& p) {
       p.ragged = segments().ragged;
       p.index_map.stride = 40;
     }},
    {"index_map.stride", with_ids(),
     [](Problem& p) {
       p.index_map.kind = IndexKind::shifted;
       p.index_map.stride = 1;
     }},
    {"index_type", with_ids(), [](Problem& p) { p.index_type = IndexType::i32; }},
    {"index_map", with_ids(), [](Problem& p) { p.indices = false; }},
    {"index_map", with_ids(), [](Problem& p) { p.form = Form::dense; }},
    {"element_stride", with_ids(), [](Problem& p) { p.element_stride = 2; }},
    {"element_stride or group_rows", with_ids(), [](Problem& p) { p.group_rows = 2; }},
    {"index_map.pages", paged(), [](Problem& p) { p.index_map.pages = 0; }},
    {"index_map.pages", paged(), [](Problem& p) { p.index_map.pages = std::int64_t{1} << 60; }},
    {"index_map.page_size", paged(), [](Problem& p) { p.index_map.page_size = 0; }},
    {"index_map.page_size", paged(), [](Problem& p) { p.index_map.page_size = -16; }},
    {"index_map.tables", paged(), [](Problem& p) { p.index_map.tables = -1; }},
    {"index_map.tables", paged(), [](Problem& p) { p.index_map.tables = 3; }},
    {"index_map.tables", paged(), [](Problem& p) { p.index_map.table_of = ArrayType::i32; }},
    {"index_map.table_of", paged(), [](Problem& p) { p.index_map.table_of = kNoArrayType; }},
    {"index_map.stride", paged(), [](Problem& p) { p.index_map.stride = 2; }},
    {"index_map.stride", paged(), [](Problem& p) { p.index_map.tables = std::int64_t{1} << 58; }},
};

TEST(RowsStatus, BadProblemsAreRefused) {
  const rtopk::Traits gpu{
      .device = kGpu, .compute_capability = 90, .multiprocessors = 132, .shared_bytes_per_block = 227 * 1024};
  for (std::size_t i = 0; i < std::size(kBadRows); ++i) {
    const BadRows& bad = kBadRows[i];
    SCOPED_TRACE(std::to_string(i) + ": " + bad.argument);
    rtopk::Plan plan;
    const rtopk::Status fine = rtopk::make_plan(bad.good, plan);
    ASSERT_TRUE(fine.ok()) << fine.text();
    const rtopk::Plan before = plan;
    Problem problem = bad.good;
    bad.spoil(problem);
    const rtopk::Status status = rtopk::make_plan(problem, plan);
    expect_refused(status, bad.argument);
    expect_refused(rtopk::make_plan(problem, rtopk::Traits{}, rtopk::Family::reference, plan), bad.argument);
    EXPECT_EQ(plan, before);
    const rtopk_problem c = to_c(problem);
    rtopk_plan of_c;
    EXPECT_STREQ(rtopk_make_plan(&c, &of_c).text, status.text());
    // run() must also reject a plan whose problem was made invalid afterwards.
    plan.problem = problem;
    expect_refused(rtopk::run(plan, nullptr, {}), bad.argument);
    problem.device = kGpu;
    expect_refused(rtopk::make_plan(problem, gpu, plan), bad.argument);
  }
}

TEST(RowsStatus, ProblemsAtTheLimitsAreAccepted) {
  const BadRows limits[] = {
      {"no elements", segments(), [](Problem& p) { p.ragged.elements = 0; }},
      {"fewer elements than cols", segments(), [](Problem& p) { p.ragged.elements = 7; }},
      {"2^31 elements", segments(),
       [](Problem& p) {
         p.index_type = IndexType::i32;
         p.ragged.elements = std::int64_t{1} << 31;
       }},
      {"more elements with ids of 32 bits", segments(),
       [](Problem& p) {
         p.index_type = IndexType::i32;
         p.index_map = {.kind = IndexKind::ids, .type = ArrayType::i32};
         p.ragged.elements = std::int64_t{1} << 33;
       }},
      {"no rows", paged(), [](Problem& p) { p.rows = 0; }},
      {"fewer pages than cols need", paged(), [](Problem& p) { p.index_map.pages = 1; }},
      {"more tables than rows", paged(), [](Problem& p) { p.index_map.tables = 9; }},
      {"fewer tables than rows", paged(),
       [](Problem& p) {
         p.index_map.tables = 1;
         p.index_map.table_of = ArrayType::i64;
       }},
      {"32-bit ids as 64-bit indices", with_ids(), [](Problem& p) { p.index_map.type = ArrayType::i32; }},
      {"magnitude of columns", plain_problem(),
       [](Problem& p) {
         p.magnitude = p.thresholds = true;
         p.element_stride = 4;
         p.row_stride = 1;
       }},
      {"magnitude in CBSR", plain_problem(),
       [](Problem& p) {
         p.magnitude = true;
         p.form = Form::cbsr;
         p.index_type = IndexType::u8;
       }},
      {"ragged rows with strides", plain_problem(),
       [](Problem& p) {
         p.ragged = {.lengths = ArrayType::i32, .starts = ArrayType::i64, .k = ArrayType::i32};
         p.row_stride = 45;
         p.form = Form::mask;
       }},
  };
  for (const BadRows& limit : limits) {
    Problem problem = limit.good;
    limit.spoil(problem);
    rtopk::Plan plan;
    const rtopk::Status status = rtopk::make_plan(problem, plan);
    EXPECT_TRUE(status.ok()) << limit.argument << ": " << status.text();
    EXPECT_EQ(plan.problem, problem);
    const rtopk_problem c = to_c(problem);
    rtopk_plan of_c;
    EXPECT_EQ(rtopk_make_plan(&c, &of_c).code, RTOPK_OK);
  }
}

/// A call in which every array is used: lengths, starts, k, a page table and the tables of rows; or offsets.
class BadArrays : public testing::Test {
 protected:
  void SetUp() override {
    Problem problem = paged();
    problem.index_map.tables = 2;
    problem.index_map.table_of = ArrayType::i32;
    problem.ragged = {.lengths = ArrayType::i64, .starts = ArrayType::i32, .k = ArrayType::i64};
    problem.thresholds = true;
    plan_for(problem);
  }

  void plan_for(const Problem& problem) {
    const rtopk::Status status = rtopk::make_plan(problem, plan_);
    ASSERT_TRUE(status.ok()) << status.text();
    memory_.assign(10 * kRoom, std::byte{0x11});
    arrays_ = {part(1), part(2), part(3), part(4), part(5), part(6)};
    output_.values = part(7);
    output_.indices = part(8);
    output_.thresholds = part(9);
    workspace_.assign(plan_.workspace_bytes, std::byte{});
  }

  std::byte* part(std::size_t number) { return memory_.data() + number * kRoom; }

  rtopk::Status run() {
    return rtopk::run(plan_, part(0), output_, {workspace_.data(), workspace_.size()}, {}, arrays_);
  }

  void expect_refused_call(const std::string& argument) {
    const std::vector<std::byte> before = memory_;
    expect_refused(run(), argument);
    EXPECT_EQ(memory_, before) << "a refused call wrote something";
  }

  static constexpr std::size_t kRoom = 4096;  // bytes for each part; none needs more
  rtopk::Plan plan_;
  alignas(16) std::vector<std::byte> memory_;
  std::vector<std::byte> workspace_;
  rtopk::RowArrays arrays_;
  rtopk::Output output_;
};

TEST_F(BadArrays, TheGoodOnesAreAccepted) { EXPECT_TRUE(run().ok()) << run().text(); }

TEST_F(BadArrays, NullAndMisaligned) {
  const struct {
    const char* argument;
    const void* rtopk::RowArrays::*array;
  } all[] = {{"arrays.lengths", &rtopk::RowArrays::lengths},
             {"arrays.starts", &rtopk::RowArrays::starts},
             {"arrays.k", &rtopk::RowArrays::k},
             {"arrays.map", &rtopk::RowArrays::map},
             {"arrays.table_of", &rtopk::RowArrays::table_of}};
  for (const auto& [argument, array] : all) {
    SetUp();
    const void* good = arrays_.*array;
    arrays_.*array = nullptr;
    expect_refused_call(argument);
    arrays_.*array = static_cast<const std::byte*>(good) + 2;
    expect_refused_call(argument);
  }
  SetUp();
  output_.thresholds = nullptr;
  expect_refused_call("output.thresholds");
  output_.thresholds = part(9) + 1;
  expect_refused_call("output.thresholds");
  plan_for(segments());
  arrays_.offsets = nullptr;
  expect_refused_call("arrays.offsets");
  arrays_.offsets = part(3) + 4;
  expect_refused_call("arrays.offsets");
}

TEST_F(BadArrays, OutputsOnThem) {
  output_.values = part(1) + 3 * 8 + 4;  // the last of four lengths
  expect_refused_call("output.values");
  output_.values = part(1) + 4 * 8;
  EXPECT_TRUE(run().ok());
  SetUp();
  output_.indices = part(5) + 16;
  expect_refused_call("output.indices");
  SetUp();
  output_.thresholds = part(7) + 4;
  expect_refused_call("output.thresholds");
  plan_for(segments());
  output_.values = part(3) + 4 * 8;  // the last of five offsets
  expect_refused_call("output.values");
  output_.values = part(0) + 99 * 4;  // the last of 100 elements
  expect_refused_call("output.values");
  output_.values = part(0) + 100 * 4;
  EXPECT_TRUE(run().ok());
}

TEST_F(BadArrays, WhatIsNotAskedForIsIgnored) {
  arrays_.offsets = nullptr;
  EXPECT_TRUE(run().ok());
  arrays_.offsets = part(7);  // would overlap if it were used
  EXPECT_TRUE(run().ok());
  plan_for(plain_problem());
  arrays_ = {};
  output_.thresholds = nullptr;
  EXPECT_TRUE(run().ok());
}

TEST_F(BadArrays, NoElementsNeedNoInput) {
  Problem problem = segments();
  problem.ragged.elements = 0;
  plan_for(problem);
  const rtopk::Status status = rtopk::run(plan_, nullptr, output_, {workspace_.data(), workspace_.size()}, {}, arrays_);
  EXPECT_TRUE(status.ok()) << status.text();
}

TEST(CApiRows, HasEveryEnumerator) {
  EXPECT_EQ(enumerators<ArrayType>().size(), RTOPK_ARRAY_I64 + 1u);
  EXPECT_EQ(enumerators<IndexKind>().size(), RTOPK_INDEX_SHIFTED + 1u);
}

TEST(CApiRows, SelectsWithEveryArray) {
  const float matrix[] = {1, -5, 2, 5, 99, 3, 4, -6, 0, 99};  // rows of 5, of which the last is not in the row
  rtopk_problem problem;
  std::memset(&problem, 0x7f, sizeof problem);  // init must set every field
  rtopk_problem_init(&problem);
  problem.rows = 2;
  problem.cols = 5;
  problem.k = 3;
  problem.order = RTOPK_BY_VALUE;
  problem.magnitude = 1;
  problem.thresholds = 1;
  problem.lengths = RTOPK_ARRAY_I32;
  problem.starts = RTOPK_ARRAY_I64;
  problem.row_k = RTOPK_ARRAY_I32;
  problem.index_kind = RTOPK_INDEX_PAGES;
  problem.map_type = RTOPK_ARRAY_I32;
  problem.map_stride = 4;
  problem.pages = 3;
  problem.page_size = 2;
  problem.tables = 2;
  problem.table_of = RTOPK_ARRAY_I64;
  rtopk_plan plan;
  const rtopk_status made = rtopk_make_plan(&problem, &plan);
  ASSERT_EQ(made.code, RTOPK_OK) << made.text;
  const std::int32_t lengths[] = {3, 4};
  const std::int64_t starts[] = {1, 0};
  const std::int32_t row_k[] = {3, 2};
  const std::int32_t tables[] = {10, 20, 30, -9, 5, -1, 7};
  const std::int64_t table_of[] = {1, 0};
  const rtopk_row_arrays arrays = {lengths, starts, nullptr, row_k, tables, table_of};
  float values[6] = {};
  std::int64_t indices[6] = {};
  float thresholds[2] = {};
  rtopk_output output = {};
  output.values = values;
  output.indices = indices;
  output.thresholds = thresholds;
  std::vector<unsigned char> workspace(rtopk_workspace_bytes(&plan));
  const rtopk_status status =
      rtopk_run_rows(&plan, matrix, &arrays, &output, workspace.data(), workspace.size(), nullptr);
  ASSERT_EQ(status.code, RTOPK_OK) << status.text;
  EXPECT_EQ(std::vector<float>(values, values + 6), (std::vector<float>{-5, 5, 2, -6, 4, 0}));
  EXPECT_EQ(std::vector<std::int64_t>(indices, indices + 6), (std::vector<std::int64_t>{10, -1, 11, 40, 21, -1}));
  EXPECT_EQ(std::vector<float>(thresholds, thresholds + 2), (std::vector<float>{2, 4}));
  const rtopk_status without =
      rtopk_run_rows(&plan, matrix, nullptr, &output, workspace.data(), workspace.size(), nullptr);
  EXPECT_EQ(without.code, RTOPK_INVALID_ARGUMENT);
  EXPECT_TRUE(std::string(without.text).starts_with("arrays.lengths")) << without.text;
  EXPECT_STREQ(rtopk_run(&plan, matrix, &output, workspace.data(), workspace.size(), nullptr).text, without.text);
}

TEST(CApiRows, SelectsFromSegments) {
  const float flat[] = {3, 1, 2, 7, 9, 8};
  rtopk_problem problem;
  rtopk_problem_init(&problem);
  problem.rows = 3;
  problem.cols = 4;
  problem.k = 2;
  problem.order = RTOPK_BY_VALUE;
  problem.offsets = RTOPK_ARRAY_I64;
  problem.elements = 6;
  rtopk_plan plan;
  ASSERT_EQ(rtopk_make_plan(&problem, &plan).code, RTOPK_OK);
  const std::int64_t offsets[] = {0, 3, 3, 6};
  rtopk_row_arrays arrays = {};
  arrays.offsets = offsets;
  float values[6] = {};
  std::int64_t indices[6] = {};
  rtopk_output output = {};
  output.values = values;
  output.indices = indices;
  std::vector<unsigned char> workspace(rtopk_workspace_bytes(&plan));
  ASSERT_EQ(rtopk_run_rows(&plan, flat, &arrays, &output, workspace.data(), workspace.size(), nullptr).code, RTOPK_OK);
  EXPECT_EQ(std::vector<std::int64_t>(indices, indices + 6), (std::vector<std::int64_t>{0, 2, -1, -1, 4, 5}));
  EXPECT_EQ(values[4], 9.0f);
}

}  // namespace
}  // namespace rtopk_test
