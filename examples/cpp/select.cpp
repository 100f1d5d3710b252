// The four largest elements of every row, with their indices.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <rtopk/rtopk.hpp>

int main() {
  constexpr std::int64_t rows = 3;
  constexpr std::int64_t cols = 1000;
  constexpr std::int64_t k = 4;

  // Row r holds r * 1000, r * 1000 + 7, ... wrapped around: the largest are easy to name.
  std::vector<float> matrix(rows * cols);
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    matrix[static_cast<std::size_t>(i)] = static_cast<float>(i / cols * 1000 + i * 7 % 1000);
  }

  // What is wanted ...
  rtopk::Problem problem;
  problem.rows = rows;
  problem.cols = cols;
  problem.k = k;
  problem.order = rtopk::Order::by_value;
  problem.index_type = rtopk::IndexType::i32;

  // ... what will run, and how much memory it needs for that ...
  rtopk::Plan plan;
  if (const auto status = rtopk::make_plan(problem, plan); !status.ok()) {
    std::fprintf(stderr, "rtopk: %s\n", status.text());
    return 1;
  }
  std::printf("%s\n", rtopk::to_string(plan).c_str());
  std::vector<std::byte> workspace(plan.workspace_bytes);

  // ... and the run. A plan and its workspace serve any number of runs.
  std::vector<float> values(rows * k);
  std::vector<std::int32_t> indices(rows * k);
  const rtopk::Output output{.values = values.data(), .indices = indices.data()};
  if (const auto status = rtopk::run(plan, matrix.data(), output, {workspace.data(), workspace.size()}); !status.ok()) {
    std::fprintf(stderr, "rtopk: %s\n", status.text());
    return 1;
  }

  bool right = true;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::printf("row %d:", static_cast<int>(row));
    for (std::int64_t i = 0; i < k; ++i) {
      const auto at = static_cast<std::size_t>(row * k + i);
      std::printf("  %g at %d", static_cast<double>(values[at]), static_cast<int>(indices[at]));
      right = right && values[at] == static_cast<float>(row * 1000 + 999 - i);
    }
    std::printf("\n");
  }
  return right ? 0 : 1;
}
