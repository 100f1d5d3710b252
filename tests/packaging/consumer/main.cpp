#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <rtopk/rtopk.hpp>

int main() {
  const std::vector<float> matrix{1, 4, 3, 2, 8, 6, 7, 5};
  const rtopk::Problem problem{.rows = 2, .cols = 4, .k = 2, .order = rtopk::Order::by_value};
  rtopk::Plan plan;
  if (const rtopk::Status status = rtopk::make_plan(problem, plan); !status.ok()) {
    std::puts(status.text());
    return 1;
  }
  std::vector<std::byte> workspace(plan.workspace_bytes);
  std::vector<float> values(4);
  std::vector<std::int64_t> indices(4);
  const rtopk::Status status = rtopk::run(plan, matrix.data(), {.values = values.data(), .indices = indices.data()},
                                          {workspace.data(), workspace.size()});
  if (!status.ok()) {
    std::puts(status.text());
    return 1;
  }
  const bool right = values == std::vector<float>{4, 3, 8, 7} && indices == std::vector<std::int64_t>{1, 2, 0, 2};
  std::printf("rtopk %s: %s\n", rtopk::version(), right ? "right" : "wrong");
  return right ? 0 : 1;
}
