// Valid plans, invalid calls: the right code, a text that names the argument, and nothing written.
#include <string>
#include <vector>

#include "status_test.hpp"

namespace rtopk_test {
namespace {

using rtopk::Form;
using rtopk::IndexType;
using rtopk::Plan;
using rtopk::Problem;
using rtopk::Status;
using rtopk::StatusCode;

/// A valid call in one block of memory, so that a test can move any part onto another.
class BadCalls : public testing::Test {
 protected:
  static constexpr std::size_t kRoom = 4096;  // bytes for each part; none needs more

  void SetUp() override { plan_for(good_problem()); }

  void plan_for(const Problem& problem) {
    const Status status = rtopk::make_plan(problem, rtopk::Traits{}, rtopk::Family::reference, plan_);
    ASSERT_TRUE(status.ok()) << status.text();
    ASSERT_GT(plan_.workspace_bytes, 0u);
    ASSERT_LE(plan_.workspace_bytes, kRoom);
    memory_.assign(7 * kRoom, std::byte{0x77});
    input_ = part(0);
    output_.values = part(1);
    output_.indices = part(2);
    output_.dense = part(3);
    output_.mask = reinterpret_cast<std::uint8_t*>(part(4));
    output_.passes = reinterpret_cast<std::int32_t*>(part(5));
    workspace_ = {part(6), plan_.workspace_bytes};
  }

  std::byte* part(std::size_t number) { return memory_.data() + number * kRoom; }

  void expect_refused(StatusCode code, const std::string& argument) {
    const std::vector<std::byte> before = memory_;
    expect_refusal(rtopk::run(plan_, input_, output_, workspace_, launch_), code, argument);
    EXPECT_EQ(memory_, before) << "a refused call wrote something";
  }
  void expect_accepted() {
    const Status status = rtopk::run(plan_, input_, output_, workspace_, launch_);
    EXPECT_TRUE(status.ok()) << status.text();
  }

  Plan plan_;
  std::vector<std::byte> memory_;
  const void* input_ = nullptr;
  rtopk::Output output_;
  rtopk::Workspace workspace_;
  rtopk::Launch launch_;
};

TEST_F(BadCalls, TheGoodOneIsAccepted) { expect_accepted(); }

TEST_F(BadCalls, NullPointers) {
  input_ = nullptr;
  expect_refused(StatusCode::invalid_argument, "input");
  SetUp();
  output_.values = nullptr;
  expect_refused(StatusCode::invalid_argument, "values");
  SetUp();
  output_.indices = nullptr;
  expect_refused(StatusCode::invalid_argument, "indices");
  SetUp();
  output_.passes = nullptr;
  expect_refused(StatusCode::invalid_argument, "passes");
  Problem problem = good_problem();
  problem.form = Form::dense;
  plan_for(problem);
  output_.dense = nullptr;
  expect_refused(StatusCode::invalid_argument, "dense");
  problem.form = Form::mask;
  plan_for(problem);
  output_.mask = nullptr;
  expect_refused(StatusCode::invalid_argument, "mask");
  problem.form = Form::cbsr;
  problem.index_type = IndexType::u8;
  problem.values = problem.indices = false;  // CBSR writes both anyway
  plan_for(problem);
  output_.values = nullptr;
  expect_refused(StatusCode::invalid_argument, "values");
  plan_for(problem);
  output_.indices = nullptr;
  expect_refused(StatusCode::invalid_argument, "indices");
}

TEST_F(BadCalls, WhatIsNotAskedForIsIgnored) {
  output_.dense = nullptr;
  output_.mask = nullptr;
  expect_accepted();
  output_.dense = const_cast<void*>(input_);  // would overlap if it were used
  expect_accepted();
  Problem problem = good_problem();
  problem.passes = problem.indices = false;
  plan_for(problem);
  output_.indices = output_.passes = nullptr;
  expect_accepted();
}

TEST_F(BadCalls, Misaligned) {
  input_ = part(0) + 2;
  expect_refused(StatusCode::invalid_argument, "input");
  SetUp();
  output_.values = part(1) + 1;
  expect_refused(StatusCode::invalid_argument, "values");
  SetUp();
  output_.indices = part(2) + 4;
  expect_refused(StatusCode::invalid_argument, "indices");
  SetUp();
  output_.passes = reinterpret_cast<std::int32_t*>(part(5) + 2);
  expect_refused(StatusCode::invalid_argument, "passes");
  Problem problem = good_problem();
  problem.form = Form::dense;
  problem.dtype = rtopk::DType::f64;
  problem.cols = 10;
  plan_for(problem);
  output_.dense = part(3) + 4;
  expect_refused(StatusCode::invalid_argument, "dense");
  problem.form = Form::cbsr;
  problem.index_type = IndexType::u16;
  plan_for(problem);
  output_.indices = part(2) + 1;
  expect_refused(StatusCode::invalid_argument, "indices");
}

TEST_F(BadCalls, AlignedToTheElementIsEnough) {
  input_ = part(0) + 4;
  output_.values = part(1) + 12;
  output_.indices = part(2) + 8;
  output_.passes = reinterpret_cast<std::int32_t*>(part(5) + 4);
  workspace_.data = part(6) + 3;
  expect_accepted();
}

TEST_F(BadCalls, Overlaps) {
  const std::size_t input_bytes = 4 * 40 * 4;
  output_.values = part(0) + input_bytes - 4;
  expect_refused(StatusCode::invalid_argument, "values");
  output_.values = part(0) + input_bytes;  // right after the input
  expect_accepted();
  SetUp();
  output_.indices = part(0);
  expect_refused(StatusCode::invalid_argument, "indices");
  SetUp();
  output_.passes = reinterpret_cast<std::int32_t*>(part(0) + 8);
  expect_refused(StatusCode::invalid_argument, "passes");
  SetUp();
  output_.values = part(2) + 16;
  expect_refused(StatusCode::invalid_argument, "(values|indices)");
  SetUp();
  output_.passes = reinterpret_cast<std::int32_t*>(part(1) + 4);
  expect_refused(StatusCode::invalid_argument, "(values|passes)");
  SetUp();
  workspace_.data = part(0) + input_bytes - 1;
  expect_refused(StatusCode::invalid_argument, "workspace");
  SetUp();
  workspace_.data = part(1);
  expect_refused(StatusCode::invalid_argument, "workspace");
  Problem problem = good_problem();
  problem.form = Form::dense;
  plan_for(problem);
  output_.dense = const_cast<void*>(input_);  // in-place selection is not supported
  expect_refused(StatusCode::invalid_argument, "dense");
  problem.form = Form::mask;
  plan_for(problem);
  output_.mask = reinterpret_cast<std::uint8_t*>(part(0));
  expect_refused(StatusCode::invalid_argument, "mask");
}

// The whole range from the first to the last element counts as input.
TEST_F(BadCalls, OverlapsOfColumnsAndGroups) {
  Problem problem = good_problem();
  problem.row_stride = 1;
  problem.element_stride = 6;  // 4 columns of a matrix that is 6 wide
  plan_for(problem);
  output_.values = part(0) + (39 * 6 + 3) * 4;
  expect_refused(StatusCode::invalid_argument, "values");
  output_.values = part(0) + (39 * 6 + 4) * 4;
  expect_accepted();
  problem = good_problem();
  problem.group_rows = 3;
  problem.group_stride = 10;  // rows 0 to 2, of which row 2 ends last, and row 3 among them
  plan_for(problem);
  output_.values = part(0) + (3 * 40 - 1) * 4;
  expect_refused(StatusCode::invalid_argument, "values");
  output_.values = part(0) + 3 * 40 * 4;
  expect_accepted();
  problem.group_stride = 200;
  plan_for(problem);
  output_.values = part(0) + (200 + 39) * 4;
  expect_refused(StatusCode::invalid_argument, "values");
  output_.values = part(0) + (200 + 40) * 4;
  expect_accepted();
}

TEST_F(BadCalls, Workspace) {
  workspace_.bytes = plan_.workspace_bytes - 1;
  expect_refused(StatusCode::workspace_too_small, "workspace.*");
  workspace_ = {};
  expect_refused(StatusCode::workspace_too_small, "workspace.*");
  workspace_ = {nullptr, plan_.workspace_bytes};
  const Status status = rtopk::run(plan_, input_, output_, workspace_);
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(names(status, "workspace")) << status.text();
  SetUp();
  workspace_.bytes += 100;
  expect_accepted();
}

TEST_F(BadCalls, Executor) {
  const rtopk::Executor empty;
  launch_.executor = &empty;
  expect_refused(StatusCode::invalid_argument, "launch.executor.*");
}

TEST_F(BadCalls, NoRowsNeedNoMemory) {
  Problem problem = good_problem();
  problem.rows = 0;
  for (const Form form : {Form::pairs, Form::dense, Form::mask}) {
    problem.form = form;
    Plan plan;
    ASSERT_TRUE(rtopk::make_plan(problem, plan).ok());
    EXPECT_TRUE(rtopk::run(plan, nullptr, {}).ok());
  }
}

TEST_F(BadCalls, PlansThatNobodyMade) {
  plan_ = {};
  expect_refused(StatusCode::invalid_argument, "cols");
  SetUp();
  plan_.threads = 0;
  expect_refused(StatusCode::invalid_argument, "plan.threads");
  SetUp();
  plan_.threads = 1000000;  // more tasks than the scratch memory is for
  expect_refused(StatusCode::invalid_argument, "plan.*");
  SetUp();
  plan_.rows_per_block = 0;
  expect_refused(StatusCode::invalid_argument, "plan.*");
  SetUp();
  plan_.scratch_bytes = 0;
  expect_refused(StatusCode::invalid_argument, "plan.*");
  SetUp();
  plan_.workspace_bytes = 0;
  expect_refused(StatusCode::invalid_argument, "plan.*");
  SetUp();
  plan_.family = far_beyond<rtopk::Family>();
  expect_refused(StatusCode::invalid_argument, "plan.*");
}

}  // namespace
}  // namespace rtopk_test
