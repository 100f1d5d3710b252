// The same bits for every number of threads, every executor, and many concurrent callers.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "check.hpp"
#include "conformance.hpp"
#include "executors.hpp"

namespace rtopk_test {
namespace {

std::vector<rtopk::Problem> problems_for(const Matrix& matrix, std::int64_t k) {
  std::vector<rtopk::Problem> problems;
  for (const Limits& limits : kLimits) {
    for (const rtopk::Direction direction : kDirections) {
      for (const rtopk::Form form : {rtopk::Form::pairs, rtopk::Form::dense}) {
        rtopk::Problem problem = problem_for(matrix, k);
        problem.direction = direction;
        problem.form = form;
        problem.passes = true;
        limits.apply(problem);
        problems.push_back(problem);
      }
    }
  }
  return problems;
}

TEST(Threads, EveryExecutorGivesTheSame) {
  Random random(seed() + 50);
  ThreadPerTask thread_per_task;
  const rtopk::Executor reverse = backwards();
  const rtopk::Executor shuffled = thread_per_task.executor();
  for (const rtopk::DType dtype : kDTypes) {
    const Matrix matrix = make_mixed_matrix(dtype, 65, 300, 20, random);
    for (const rtopk::Problem& problem : problems_for(matrix, 20)) {
      if (left_out(random)) continue;
      const auto selections = select(problem, matrix.bytes.data());
      for (const Runner* runner : host_runners()) {
        runner->activate();
        for (const rtopk::Executor* executor : {static_cast<const rtopk::Executor*>(nullptr), &reverse, &shuffled}) {
          for (const std::int32_t threads : {1, 2, 3}) {
            Layout layout;
            layout.threads = threads;
            layout.executor = executor;
            ASSERT_EQ(check(*runner, problem, matrix, selections, layout), "");
          }
        }
      }
    }
  }
}

// Rows fewer than the threads are split, into parts that do not divide them evenly.
TEST(Threads, ShareARow) {
  if (!rtopk::build_info().highway) GTEST_SKIP() << "without Highway every plan is the reference";
  Random random(seed() + 53);
  for (const rtopk::DType dtype : {rtopk::DType::f32, rtopk::DType::bf16}) {
    for (const std::int64_t rows : {1, 2}) {
      const Matrix matrix = make_mixed_matrix(dtype, rows, 600011, 50, random);
      const auto enough = static_cast<std::int32_t>(rows);
      for (const std::int32_t threads : {enough, random.coin() ? 3 : 8}) {
        rtopk::Problem problem = problem_for(matrix, 50);
        problem.order = random.coin() ? rtopk::Order::unsorted : rtopk::Order::by_value;
        problem.index_type = random.coin() ? rtopk::IndexType::i32 : rtopk::IndexType::i64;
        const auto selections = select(problem, matrix.bytes.data());
        rtopk::Plan plan;
        rtopk::Traits traits;
        traits.threads = threads;
        ASSERT_TRUE(rtopk::make_plan(problem, traits, plan).ok());
        EXPECT_EQ(plan.parts > 0, rows < threads);
        Layout layout;
        layout.threads = threads;
        for (const Runner* runner : host_runners()) {
          runner->activate();
          ASSERT_EQ(check(*runner, problem, matrix, selections, layout), "");
        }
      }
    }
  }
}

TEST(Threads, AProblemThatIsWorthMany) {
  Random random(seed() + 51);
  const Matrix matrix = make_mixed_matrix(rtopk::DType::f32, 3000, 256, 32, random);
  for (const std::int32_t threads : {1, 2, 3, 8}) {
    Layout layout;
    layout.threads = threads;
    ASSERT_EQ(check_everywhere(problem_for(matrix, 32), matrix, layout), "");
  }
}

/// The passes that a plan with this many threads writes.
std::vector<std::int32_t> passes_with(const rtopk::Problem& problem, const Matrix& matrix, std::int32_t threads) {
  rtopk::Traits traits;
  traits.threads = threads;
  rtopk::Plan plan;
  EXPECT_TRUE(rtopk::make_plan(problem, traits, plan).ok());
  std::vector<std::byte> workspace(plan.workspace_bytes);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(problem.rows * problem.k));
  std::vector<std::int32_t> passes(static_cast<std::size_t>(problem.rows));
  rtopk::Output output;
  output.indices = indices.data();
  output.passes = passes.data();
  EXPECT_TRUE(rtopk::run(plan, matrix.bytes.data(), output, {workspace.data(), workspace.size()}).ok());
  return passes;
}

TEST(Threads, PassesDoNotDependOnTheirNumber) {
  Random random(seed() + 52);
  const Matrix matrix = make_mixed_matrix(rtopk::DType::f32, 2000, 300, 20, random);
  rtopk::Problem problem = problem_for(matrix, 20);
  problem.values = false;
  problem.passes = true;
  const auto alone = passes_with(problem, matrix, 1);
  for (const std::int32_t threads : {2, 3, 7}) EXPECT_EQ(passes_with(problem, matrix, threads), alone);
}

TEST(Threads, ManyCallersAtOnce) {
  constexpr int kCallers = 6;
  Random random(seed() + 53);
  for (const auto& runner : runners()) {
    runner->activate();
    std::vector<std::string> wrong(kCallers);
    std::vector<std::thread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
      const std::uint64_t own_seed = random.bits();
      callers.emplace_back([&wrong, &runner, caller, own_seed] {
        Random own(own_seed);
        for (std::int64_t left = scaled(25); left > 0; --left) {
          const std::int64_t cols = own.between(1, 3000);
          const std::int64_t k = random_k(cols, own);
          const Matrix matrix = make_mixed_matrix(own.pick(kDTypes), own.between(1, 20), cols, k, own);
          rtopk::Problem problem = problem_for(matrix, k);
          own.pick(kLimits).apply(problem);
          own.pick(shapes_for(cols)).apply(problem);
          const auto selections = select(problem, matrix.bytes.data());
          const std::string found = check(*runner, problem, matrix, selections, random_layout(own));
          if (!found.empty()) wrong[static_cast<std::size_t>(caller)] = found;
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    for (const std::string& found : wrong) ASSERT_EQ(found, "");
  }
}

TEST(Threads, OnePlanServesManyCallers) {
  Random random(seed() + 54);
  const Matrix matrix = make_mixed_matrix(rtopk::DType::f32, 50, 400, 16, random);
  rtopk::Problem problem = problem_for(matrix, 16);
  rtopk::Plan plan;
  ASSERT_TRUE(rtopk::make_plan(problem, plan).ok());
  const Result expected = render(problem, matrix, select(problem, matrix.bytes.data()));
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      std::vector<std::byte> workspace(plan.workspace_bytes);
      std::vector<std::byte> values(expected.values.size());
      std::vector<std::byte> indices(expected.indices.size());
      for (int repeat = 0; repeat < 20; ++repeat) {
        rtopk::Output output;
        output.values = values.data();
        output.indices = indices.data();
        const auto status = rtopk::run(plan, matrix.bytes.data(), output, {workspace.data(), workspace.size()});
        if (!status.ok() || values != expected.values || indices != expected.indices) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace rtopk_test
