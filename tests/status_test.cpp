// Every kind of invalid problem: the right code, a text that names the argument, and no plan.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "enumerators.hpp"
#include "status_test.hpp"

namespace rtopk_test {
namespace {

using rtopk::Form;
using rtopk::IndexType;
using rtopk::Plan;
using rtopk::Problem;
using rtopk::Status;
using rtopk::StatusCode;

constexpr std::int64_t k2To31 = std::int64_t{1} << 31;

struct BadProblem {
  const char* label;
  StatusCode code;
  const char* argument;
  std::function<void(Problem&)> spoil;
};

std::ostream& operator<<(std::ostream& out, const BadProblem& bad) { return out << bad.label; }

template <typename Enum>
Enum just_beyond() {
  return static_cast<Enum>(enumerators<Enum>().size());
}

const BadProblem kBadProblems[] = {
    {"k_zero", StatusCode::invalid_argument, "k", [](Problem& p) { p.k = 0; }},
    {"k_negative", StatusCode::invalid_argument, "k", [](Problem& p) { p.k = -3; }},
    {"k_above_cols", StatusCode::invalid_argument, "k", [](Problem& p) { p.k = p.cols + 1; }},
    {"k_huge", StatusCode::invalid_argument, "k", [](Problem& p) { p.k = std::numeric_limits<std::int64_t>::max(); }},
    {"rows_negative", StatusCode::invalid_argument, "rows", [](Problem& p) { p.rows = -1; }},
    {"cols_zero", StatusCode::invalid_argument, "cols", [](Problem& p) { p.cols = 0; }},
    {"cols_negative", StatusCode::invalid_argument, "cols", [](Problem& p) { p.cols = -40; }},
    {"stride_below_cols", StatusCode::invalid_argument, "row_stride", [](Problem& p) { p.row_stride = p.cols - 1; }},
    {"stride_negative", StatusCode::invalid_argument, "row_stride", [](Problem& p) { p.row_stride = -p.cols; }},
    {"element_stride_negative", StatusCode::invalid_argument, "element_stride",
     [](Problem& p) { p.element_stride = -2; }},
    {"stride_negative_of_columns", StatusCode::invalid_argument, "row_stride",
     [](Problem& p) {
       p.element_stride = 50;
       p.row_stride = -1;
     }},
    {"stride_below_cols_in_groups", StatusCode::invalid_argument, "row_stride",
     [](Problem& p) {
       p.element_stride = 1;
       p.group_rows = 2;
       p.row_stride = p.cols - 1;
     }},
    {"group_rows_negative", StatusCode::invalid_argument, "group_rows", [](Problem& p) { p.group_rows = -1; }},
    {"group_stride_negative", StatusCode::invalid_argument, "group_stride",
     [](Problem& p) {
       p.group_rows = 2;
       p.group_stride = -1;
     }},
    {"group_stride_without_groups", StatusCode::invalid_argument, "group_rows",
     [](Problem& p) { p.group_stride = 100; }},
    {"elements_overflow", StatusCode::invalid_argument, "element_stride",
     [](Problem& p) { p.element_stride = std::int64_t{1} << 58; }},
    {"elements_overflow_of_one_row", StatusCode::invalid_argument, "element_stride",
     [](Problem& p) {
       p.rows = 1;
       p.row_stride = 1;
       p.element_stride = std::numeric_limits<std::int64_t>::max();
     }},
    {"elements_wrap_to_little", StatusCode::invalid_argument, "element_stride",
     [](Problem& p) {  // cols * element_stride is 80 in 64 bits
       p.element_stride = (std::int64_t{1} << 61) + 2;
     }},
    {"groups_overflow", StatusCode::invalid_argument, "group_stride",
     [](Problem& p) {
       p.group_rows = 1;
       p.group_stride = std::int64_t{1} << 60;
     }},
    {"results_of_columns_overflow", StatusCode::invalid_argument, "rows",
     [](Problem& p) {  // the input fits, the output does not
       p.rows = std::int64_t{1} << 58;
       p.row_stride = 1;
       p.element_stride = 2;
     }},
    {"too_many_rows", StatusCode::invalid_argument, "rows", [](Problem& p) { p.rows = std::int64_t{1} << 60; }},
    {"rows_times_stride_wraps_to_zero", StatusCode::invalid_argument, "rows",
     [](Problem& p) {
       p.rows = std::int64_t{1} << 32;
       p.row_stride = std::int64_t{1} << 32;
     }},
    {"bytes_overflow", StatusCode::invalid_argument, "rows",
     [](Problem& p) {
       p.rows = std::int64_t{1} << 40;
       p.row_stride = std::int64_t{1} << 22;
     }},
    {"cols_overflow", StatusCode::invalid_argument, "(rows|cols|row stride)",
     [](Problem& p) { p.cols = std::numeric_limits<std::int64_t>::max(); }},
    {"indices_overflow", StatusCode::invalid_argument, "rows",
     [](Problem& p) {  // two bytes per element fit, eight per index do not
       p.dtype = rtopk::DType::f16;
       p.rows = std::int64_t{1} << 61;
       p.cols = 1;
       p.k = 1;
     }},
    {"dtype", StatusCode::invalid_argument, "dtype", [](Problem& p) { p.dtype = far_beyond<rtopk::DType>(); }},
    {"dtype_just_beyond", StatusCode::invalid_argument, "dtype",
     [](Problem& p) { p.dtype = just_beyond<rtopk::DType>(); }},
    {"direction", StatusCode::invalid_argument, "direction",
     [](Problem& p) { p.direction = just_beyond<rtopk::Direction>(); }},
    {"order", StatusCode::invalid_argument, "order", [](Problem& p) { p.order = just_beyond<rtopk::Order>(); }},
    {"form", StatusCode::invalid_argument, "form", [](Problem& p) { p.form = just_beyond<Form>(); }},
    {"index_type", StatusCode::invalid_argument, "index_type",
     [](Problem& p) { p.index_type = just_beyond<IndexType>(); }},
    {"rule", StatusCode::invalid_argument, "rule", [](Problem& p) { p.rule = just_beyond<rtopk::Rule>(); }},
    {"search", StatusCode::invalid_argument, "search", [](Problem& p) { p.search = just_beyond<rtopk::Search>(); }},
    {"device_kind", StatusCode::invalid_argument, "device.*",
     [](Problem& p) { p.device.kind = just_beyond<rtopk::DeviceKind>(); }},
    {"cpu_ordinal", StatusCode::invalid_argument, "device.*", [](Problem& p) { p.device.ordinal = 1; }},
    {"cpu_ordinal_negative", StatusCode::invalid_argument, "device.*", [](Problem& p) { p.device.ordinal = -1; }},
    {"i32_for_too_many_columns", StatusCode::invalid_argument, "index_type",
     [](Problem& p) {
       p.cols = k2To31 + 1;
       p.index_type = IndexType::i32;
     }},
    {"pairs_with_u8", StatusCode::invalid_argument, "index_type", [](Problem& p) { p.index_type = IndexType::u8; }},
    {"pairs_with_u16", StatusCode::invalid_argument, "index_type", [](Problem& p) { p.index_type = IndexType::u16; }},
    {"cbsr_with_i64", StatusCode::invalid_argument, "index_type", [](Problem& p) { p.form = Form::cbsr; }},
    {"cbsr_with_i32", StatusCode::invalid_argument, "index_type",
     [](Problem& p) {
       p.form = Form::cbsr;
       p.index_type = IndexType::i32;
     }},
    {"u8_for_257_columns", StatusCode::invalid_argument, "index_type",
     [](Problem& p) {
       p.form = Form::cbsr;
       p.index_type = IndexType::u8;
       p.cols = 257;
     }},
    {"u16_for_65537_columns", StatusCode::invalid_argument, "cols",
     [](Problem& p) {
       p.form = Form::cbsr;
       p.index_type = IndexType::u16;
       p.cols = 65537;
     }},
    {"neither_values_nor_indices", StatusCode::invalid_argument, "values",
     [](Problem& p) { p.values = p.indices = false; }},
    {"dense_by_value", StatusCode::invalid_argument, "order",
     [](Problem& p) {
       p.form = Form::dense;
       p.order = rtopk::Order::by_value;
     }},
    {"mask_by_value", StatusCode::invalid_argument, "order",
     [](Problem& p) {
       p.form = Form::mask;
       p.order = rtopk::Order::by_value;
     }},
    {"epsilon_nan", StatusCode::invalid_argument, "epsilon", [](Problem& p) { p.epsilon = std::nan(""); }},
    {"epsilon_negative", StatusCode::invalid_argument, "epsilon", [](Problem& p) { p.epsilon = -1e-9; }},
    {"epsilon_above_one", StatusCode::invalid_argument, "epsilon", [](Problem& p) { p.epsilon = 1.0000001; }},
    {"epsilon_infinite", StatusCode::invalid_argument, "epsilon",
     [](Problem& p) { p.epsilon = std::numeric_limits<double>::infinity(); }},
    {"max_iter_negative", StatusCode::invalid_argument, "max_iter", [](Problem& p) { p.max_iter = -1; }},
    {"max_iter_above_10000", StatusCode::invalid_argument, "max_iter", [](Problem& p) { p.max_iter = 10001; }},
    {"both_early_stops", StatusCode::invalid_argument, "max_iter",
     [](Problem& p) {
       p.max_iter = 5;
       p.epsilon = 0.1;
     }},
    {"both_early_stops_names_the_other", StatusCode::invalid_argument, "epsilon",
     [](Problem& p) {
       p.max_iter = 5;
       p.epsilon = 0.1;
     }},
};

class BadProblems : public testing::TestWithParam<BadProblem> {};

TEST_P(BadProblems, AreRefused) {
  Problem problem = good_problem();
  GetParam().spoil(problem);

  // An error must not change the plan.
  Plan plan;
  ASSERT_TRUE(rtopk::make_plan(good_problem(), plan).ok());
  const Plan before = plan;
  expect_refusal(rtopk::make_plan(problem, plan), GetParam().code, GetParam().argument);
  EXPECT_EQ(plan, before);
  expect_refusal(rtopk::make_plan(problem, rtopk::Traits{}, plan), GetParam().code, GetParam().argument);
  EXPECT_EQ(plan, before);
  expect_refusal(rtopk::make_plan(problem, rtopk::Traits{}, rtopk::Family::reference, plan), GetParam().code,
                 GetParam().argument);
  EXPECT_EQ(plan, before);

  // run() must also reject a plan whose problem was made invalid afterwards.
  plan.problem = problem;
  const std::vector<float> input(160, 1.0f);
  std::vector<float> values(32, -7.0f);
  std::vector<std::int64_t> indices(32, -7);
  std::vector<std::int32_t> passes(4, -7);
  std::vector<std::byte> workspace(plan.workspace_bytes + 1000000);
  rtopk::Output output;
  output.values = values.data();
  output.indices = indices.data();
  output.passes = passes.data();
  expect_refusal(rtopk::run(plan, input.data(), output, {workspace.data(), workspace.size()}), GetParam().code,
                 GetParam().argument);
  EXPECT_EQ(values, std::vector<float>(32, -7.0f));
  EXPECT_EQ(indices, std::vector<std::int64_t>(32, -7));
  EXPECT_EQ(passes, std::vector<std::int32_t>(4, -7));
}

INSTANTIATE_TEST_SUITE_P(Status, BadProblems, testing::ValuesIn(kBadProblems),
                         [](const auto& parameter) { return std::string(parameter.param.label); });

TEST(Problems, AtTheLimitsAreAccepted) {
  const std::function<void(Problem&)> limits[] = {
      [](Problem& p) { p.rows = 0; },
      [](Problem& p) { p.k = p.cols; },
      [](Problem& p) { p.row_stride = p.cols; },
      [](Problem& p) {
        p.element_stride = p.rows;
        p.row_stride = 1;
      },
      [](Problem& p) {
        p.element_stride = std::int64_t{1} << 54;
        p.row_stride = 1;
      },
      [](Problem& p) {  // the same rows repeated
        p.group_rows = 1;
        p.group_stride = 0;
      },
      [](Problem& p) { p.epsilon = 1.0; },
      [](Problem& p) { p.max_iter = 10000; },
      [](Problem& p) { p.rule = rtopk::Rule::printed; },  // without max_iter: ignored
      [](Problem& p) {
        p.cols = k2To31;  // the greatest index is 2^31 - 1
        p.index_type = IndexType::i32;
      },
      [](Problem& p) { p.cols = k2To31 + 1; },
      [](Problem& p) {
        p.form = Form::cbsr;
        p.cols = 256;
        p.index_type = IndexType::u8;
      },
      [](Problem& p) {
        p.form = Form::cbsr;
        p.cols = 65536;
        p.index_type = IndexType::u16;
      },
      [](Problem& p) {
        p.form = Form::cbsr;  // wider than needed is allowed
        p.index_type = IndexType::u16;
      },
      [](Problem& p) {
        p.values = false;  // dense ignores the index type
        p.form = Form::dense;
        p.index_type = IndexType::u8;
      },
  };
  for (std::size_t i = 0; i < std::size(limits); ++i) {
    Problem problem = good_problem();
    limits[i](problem);
    Plan plan;
    const Status status = rtopk::make_plan(problem, plan);
    EXPECT_TRUE(status.ok()) << i << ": " << status.text();
    EXPECT_STREQ(status.text(), "");
    EXPECT_EQ(plan.problem, problem);
  }
}

TEST(Traits, AreChecked) {
  Plan plan;
  rtopk::Traits traits;
  traits.threads = 0;
  expect_refusal(rtopk::make_plan(good_problem(), traits, plan), StatusCode::invalid_argument, "traits.threads");
  traits.threads = -4;
  expect_refusal(rtopk::make_plan(good_problem(), traits, plan), StatusCode::invalid_argument, "traits.threads");
  traits.threads = 1;
  traits.device = {rtopk::DeviceKind::cuda, 0};
  expect_refusal(rtopk::make_plan(good_problem(), traits, plan), StatusCode::invalid_argument, "traits.device");
}

TEST(Traits, OfThisMachine) {
  rtopk::Traits traits;
  ASSERT_TRUE(rtopk::query_traits({}, traits).ok());
  EXPECT_GE(traits.threads, 1);
  EXPECT_EQ(traits.device, rtopk::Device{});
  expect_refusal(rtopk::query_traits({rtopk::DeviceKind::cpu, 3}, traits), StatusCode::invalid_argument, "device");
  expect_refusal(rtopk::query_traits({far_beyond<rtopk::DeviceKind>(), 0}, traits), StatusCode::invalid_argument,
                 "device");
}

TEST(Cuda, IsNotSupportedWhereItWasNotBuilt) {
  if (rtopk::build_info().cuda) GTEST_SKIP() << "this build has CUDA";
  Problem problem = good_problem();
  problem.device.kind = rtopk::DeviceKind::cuda;
  Plan plan;
  rtopk::Traits traits;
  expect_refusal(rtopk::make_plan(problem, plan), StatusCode::not_supported, "cuda");
  expect_refusal(rtopk::query_traits(problem.device, traits), StatusCode::not_supported, "cuda");
  traits = {
      .device = problem.device, .compute_capability = 90, .multiprocessors = 132, .shared_bytes_per_block = 227 * 1024};
  ASSERT_TRUE(rtopk::make_plan(problem, traits, plan).ok());  // planning needs no backend
  alignas(16) static std::byte memory[5][4096];
  const rtopk::Output output{
      .values = memory[1], .indices = memory[2], .passes = reinterpret_cast<std::int32_t*>(memory[3])};
  expect_refusal(rtopk::run(plan, memory[0], output, {memory[4], sizeof memory[4]}), StatusCode::not_supported, "cuda");
}

TEST(Status, IsAPlainValue) {
  const Status fine;
  EXPECT_TRUE(fine.ok());
  EXPECT_EQ(fine.code(), StatusCode::ok);
  EXPECT_STREQ(fine.text(), "");
  const Status status(StatusCode::device_error, "the reason");
  const Status copy = status;
  EXPECT_EQ(copy.code(), StatusCode::device_error);
  EXPECT_STREQ(copy.text(), "the reason");
  const std::string endless(5000, 'x');
  const Status cut(StatusCode::invalid_argument, endless.c_str());
  EXPECT_GT(std::strlen(cut.text()), 100u);
  EXPECT_LT(std::strlen(cut.text()), 256u);
}

}  // namespace
}  // namespace rtopk_test
