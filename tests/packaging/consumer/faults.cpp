// Uses all CPU functions of the library, with its own threads, and allocates nothing itself: for runs in which an
// allocation or a thread start fails. Exits with 0 if every call was right or refused, else with 1.
#include <rtopk/rtopk.h>
#include <rtopk/gnn/aggregate.hpp>
#include <rtopk/gnn/product.hpp>
#include <rtopk/rtopk.hpp>

#include <cstring>
#include <new>

namespace {

constexpr std::int64_t kRows = 1100;  // enough for four threads
constexpr std::int64_t kCols = 256;
constexpr std::int64_t kK = 4;
constexpr std::int64_t kWidth = 8;

float matrix[kRows * kCols];
std::int64_t indices[kRows * kK];
std::uint8_t selectors[kRows * kK];
float values[kRows * kK];
float weights[kCols * kWidth];
float product[kRows * kWidth];
std::int32_t row_starts[kRows + 1];
std::int32_t columns[kRows];
float sums[kRows * kCols];
alignas(64) std::byte workspace[1 << 22];

int wrong = 0;

/// Rows ascend, so the last elements are the largest.
void expect_last(bool ok) {
  for (std::int64_t i = 0; ok && i < kRows * kK; ++i) wrong += indices[i] != kCols - kK + i % kK ? 1 : 0;
  std::memset(indices, 0, sizeof indices);
}

void select(const rtopk::Traits& traits) {
  rtopk::Problem problem;
  problem.rows = kRows;
  problem.cols = kCols;
  problem.k = kK;
  problem.values = false;
  rtopk::Plan plan;
  if (!rtopk::make_plan(problem, traits, plan).ok()) return;
  expect_last(rtopk::run(plan, matrix, {.indices = indices}, {workspace, sizeof workspace}).ok());
}

void select_by_c() {
  rtopk_problem problem;
  rtopk_problem_init(&problem);
  problem.rows = kRows;
  problem.cols = kCols;
  problem.k = kK;
  problem.values = 0;
  rtopk_plan plan;
  if (rtopk_make_plan_threads(&problem, 4, &plan).code != RTOPK_OK) return;
  char text[1024];
  const std::size_t length = rtopk_plan_text(&plan, text, sizeof text);
  wrong += length != 0 && std::strstr(text, "cols=256") == nullptr ? 1 : 0;
  rtopk_output output{};
  output.indices = indices;
  expect_last(rtopk_run(&plan, matrix, &output, workspace, sizeof workspace, nullptr).code == RTOPK_OK);
}

void multiply(const rtopk::Traits& traits) {
  const rtopk::gnn::Product problem{.rows = kRows, .cols = kCols, .k = kK, .width = kWidth};
  rtopk::gnn::ProductPlan plan;
  if (!rtopk::gnn::make_plan(problem, traits, plan).ok()) return;
  std::memset(product, 0, sizeof product);
  const rtopk::gnn::ProductCall call{.values = values, .selectors = selectors, .matrix = weights, .result = product};
  const bool ok = rtopk::gnn::run(plan, call).ok();
  for (const float sum : product) wrong += ok && sum != static_cast<float>(kK) ? 1 : 0;
}

void aggregate(const rtopk::Traits& traits) {
  const rtopk::gnn::Aggregation problem{.rows = kRows, .nodes = kRows, .edges = kRows, .cols = kCols, .k = kK};
  rtopk::gnn::AggregationPlan plan;
  if (!rtopk::gnn::make_plan(problem, traits, plan).ok()) return;
  const rtopk::gnn::AggregationCall call{
      .graph = {row_starts, columns, nullptr}, .values = values, .selectors = selectors, .result = sums};
  const bool ok = rtopk::gnn::run(plan, call, {workspace, sizeof workspace}).ok();
  for (std::int64_t i = 0; ok && i < kRows * kCols; ++i) wrong += sums[i] != (i % kCols < kK ? 1.0f : 0.0f) ? 1 : 0;
}

}  // namespace

int main() {
  for (std::int64_t i = 0; i < kRows * kCols; ++i) matrix[i] = static_cast<float>(i % kCols);
  for (std::int64_t i = 0; i < kRows * kK; ++i) selectors[i] = static_cast<std::uint8_t>(i % kK);
  for (float& value : values) value = 1.0f;
  for (float& weight : weights) weight = 1.0f;
  for (std::int32_t i = 0; i < kRows; ++i) row_starts[i + 1] = (columns[i] = i) + 1;

  rtopk::Traits traits;
  wrong += rtopk::query_traits({}, traits).ok() && traits.threads >= 1 ? 0 : 1;
  traits.threads = 4;
  for (int repeat = 0; repeat < 2; ++repeat) {
    select(traits);
    select_by_c();
    multiply(traits);
    aggregate(traits);
  }
  wrong += std::strlen(rtopk::build_info().cpu_targets) > 0 ? 0 : 1;
  try {
    static_cast<void>(rtopk::to_string(rtopk::Plan{}));
  } catch (const std::bad_alloc&) {  // as for any function that returns a string
  }
  return wrong == 0 ? 0 : 1;
}
