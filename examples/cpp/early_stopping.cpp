// What early stopping costs: the share of the exact top k that is still found after a few passes of the paper's search.
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include <rtopk/rtopk.hpp>

namespace {

constexpr std::int64_t rows = 2000;
constexpr std::int64_t cols = 256;
constexpr std::int64_t k = 32;

/// One byte per element: 1 where it was selected.
std::vector<std::uint8_t> selected(const std::vector<float>& matrix, std::int32_t max_iter) {
  rtopk::Problem problem;
  problem.rows = rows;
  problem.cols = cols;
  problem.k = k;
  problem.form = rtopk::Form::mask;
  problem.max_iter = max_iter;
  std::vector<std::uint8_t> mask(rows * cols);
  rtopk::Plan plan;
  rtopk::Status status = rtopk::make_plan(problem, plan);
  if (status.ok()) {
    std::vector<std::byte> workspace(plan.workspace_bytes);
    status = rtopk::run(plan, matrix.data(), {.mask = mask.data()}, {workspace.data(), workspace.size()});
  }
  if (!status.ok()) std::fprintf(stderr, "rtopk: %s\n", status.text());
  return mask;
}

}  // namespace

int main() {
  std::vector<float> matrix(rows * cols);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& element : matrix) element = normal(random);

  const std::vector<std::uint8_t> exact = selected(matrix, 0);
  double first = 0.0;
  double last = 0.0;
  for (const std::int32_t max_iter : {1, 2, 3, 4, 5, 6, 8, 12}) {
    const std::vector<std::uint8_t> early = selected(matrix, max_iter);
    std::int64_t found = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) found += exact[i] & early[i];
    last = static_cast<double>(found) / (rows * k);
    if (first == 0.0) first = last;
    std::printf("max_iter %2d: %5.1f %% of the exact top %d\n", static_cast<int>(max_iter), 100.0 * last,
                static_cast<int>(k));
  }
  return last > first && last > 0.9 ? 0 : 1;
}
