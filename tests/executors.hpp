// Executors like those of host frameworks: with other threads and other orders.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include <rtopk/rtopk.hpp>

#include "random.hpp"

namespace rtopk_test {

using Task = void (*)(void* task_context, std::int64_t i);

/// Runs all tasks on the calling thread, last task first.
inline rtopk::Executor backwards() {
  return {[](void*, std::int64_t count, Task task, void* context) {
            for (std::int64_t i = count; i-- > 0;) task(context, i);
          },
          nullptr};
}

/// Runs every task on its own thread, started in random order. `on_thread` prepares each thread.
class ThreadPerTask {
 public:
  explicit ThreadPerTask(std::function<void()> on_thread = [] {}) : on_thread_(std::move(on_thread)) {}

  [[nodiscard]] rtopk::Executor executor() {
    return {[](void* self, std::int64_t count, Task task, void* context) {
              static_cast<ThreadPerTask*>(self)->run(count, task, context);
            },
            this};
  }

 private:
  void run(std::int64_t count, Task task, void* context) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    Random random(seed());
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i) - 1))]);
    }
    std::vector<std::thread> threads;
    for (const std::int64_t i : order) {
      threads.emplace_back([this, task, context, i] {
        on_thread_();
        task(context, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::function<void()> on_thread_;
};

}  // namespace rtopk_test
