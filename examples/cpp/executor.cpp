// Rows on the host program's own threads: an Executor hands the library's tasks to them. A thread pool would do the same
// with its own submit and wait.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include <rtopk/rtopk.hpp>

namespace {

struct OurThreads {
  int threads = 2;
  std::atomic<int> tasks_run{0};

  static void parallel_for(void* context, std::int64_t count, void (*task)(void*, std::int64_t), void* task_context) {
    auto& self = *static_cast<OurThreads*>(context);
    std::atomic<std::int64_t> next{0};
    const auto work = [&] {
      for (std::int64_t i = next++; i < count; i = next++) {
        task(task_context, i);
        ++self.tasks_run;
      }
    };
    std::vector<std::thread> helpers;
    for (int i = 1; i < self.threads; ++i) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
  }
};

}  // namespace

int main() {
  rtopk::Problem problem;
  problem.rows = 4096;
  problem.cols = 256;
  problem.k = 1;
  problem.values = false;  // the argmax of every row

  // The plan is made for as many threads as the executor has.
  OurThreads ours;
  rtopk::Traits traits;
  traits.threads = ours.threads;
  rtopk::Plan plan;
  if (const auto status = rtopk::make_plan(problem, traits, plan); !status.ok()) {
    std::fprintf(stderr, "rtopk: %s\n", status.text());
    return 1;
  }

  std::vector<float> matrix(4096 * 256, 0.0f);
  for (std::size_t row = 0; row < 4096; ++row) matrix[row * 256 + row % 256] = 1.0f;
  std::vector<std::int64_t> argmax(4096);
  std::vector<std::byte> workspace(plan.workspace_bytes);
  const rtopk::Executor executor{OurThreads::parallel_for, &ours};
  const auto status = rtopk::run(plan, matrix.data(), {.indices = argmax.data()}, {workspace.data(), workspace.size()},
                                 {.executor = &executor});
  if (!status.ok()) {
    std::fprintf(stderr, "rtopk: %s\n", status.text());
    return 1;
  }
  for (std::size_t row = 0; row < 4096; ++row) {
    if (argmax[row] != static_cast<std::int64_t>(row % 256)) return 1;
  }
  std::printf("4096 rows in %d tasks on %d threads\n", ours.tasks_run.load(), ours.threads);
  return 0;
}
