#include "threads.hpp"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>

namespace rtopk::cpu {
namespace {

using Task = void (*)(void*, std::int64_t);

/// Workers that sleep between jobs. Never destroyed: they may outlive the statics of a program that is ending.
class Pool {
 public:
  void parallel_for(std::int64_t count, Task task, void* context) {
    const std::unique_lock<std::mutex> only_one_job(caller_, std::try_to_lock);
    if (count <= 1 || !only_one_job.owns_lock()) {
      for (std::int64_t i = 0; i < count; ++i) task(context, i);
      return;
    }
    start_workers(count - 1);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      task_ = task;
      context_ = context;
      count_ = count;
      next_.store(0, std::memory_order_relaxed);
      ++job_;
    }
    wake_.notify_all();
    work(task, context, count);
    // A worker that is still at the job must be waited for; one that has not woken yet will find nothing left of it.
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return working_ == 0; });
    task_ = nullptr;
  }

 private:
  void work(Task task, void* context, std::int64_t count) {
    for (std::int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count;) task(context, i);
  }

  void start_workers(std::int64_t wanted) {
    for (; workers_ < wanted; ++workers_) {
      try {
        std::thread([this] { serve(); }).detach();
      } catch (const std::system_error&) {
        return;  // fewer threads do the same work
      }
    }
  }

  void serve() {
    std::uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return job_ != seen && task_ != nullptr; });
      seen = job_;
      const Task task = task_;
      void* const context = context_;
      const std::int64_t count = count_;
      ++working_;
      lock.unlock();
      work(task, context, count);
      lock.lock();
      if (--working_ == 0) done_.notify_one();
    }
  }

  std::mutex caller_;
  std::int64_t workers_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::uint64_t job_ = 0;
  Task task_ = nullptr;
  void* context_ = nullptr;
  std::int64_t count_ = 0;
  std::int64_t working_ = 0;
  std::atomic<std::int64_t> next_{0};
};

/// The pool of this process: after fork() a child has none of its parent's threads and needs a pool of its own.
Pool& pool() {
  static std::mutex mutex;
  static Pool* current = nullptr;
  static pid_t owner = 0;
  const std::lock_guard<std::mutex> lock(mutex);
  if (current == nullptr || owner != getpid()) {
    current = new Pool;
    owner = getpid();
  }
  return *current;
}

}  // namespace

void run_tasks(const Executor* executor, std::int64_t number, Task task, void* job) noexcept {
  if (executor != nullptr) {
    executor->parallel_for(executor->context, number, task, job);
  } else if (number == 1) {
    task(job, 0);  // without a pool
  } else {
    pool().parallel_for(number, task, job);
  }
}

}  // namespace rtopk::cpu
