#include "cpu/runtime/threads.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>

#include "cpu/runtime/worker_thread.hpp"

namespace rtopk::cpu {
namespace {

using Task = void (*)(void*, std::int64_t);

/// More would only wait for each other, whatever a plan says.
constexpr std::int64_t kMaxWorkers = 4095;

class Pool;

/// The last one that was made. There is no lock on the way to it: a child that is forked while another thread holds one would
/// wait for ever.
constinit std::atomic<Pool*> current{nullptr};

/// Makes a child forget its parent's pool. The process number, which also tells, is not enough: in a PID namespace of its own a
/// child can have the number of its parent. To be called when this code can no longer be unloaded.
void forget_after_fork() noexcept {
  static std::atomic<bool> registered{false};
  if (registered.exchange(true)) return;
  // Where it fails, for want of memory, the process number has to do.
  static_cast<void>(pthread_atfork(nullptr, nullptr, [] { current.store(nullptr, std::memory_order_relaxed); }));
}

/// Workers that sleep between jobs. Never destroyed: they may outlive the statics of a program that is ending.
class Pool {
 public:
  explicit Pool(pid_t process) : process_(process) {}

  /// Whether its threads are threads of this process: a child after fork() has a copy of its parent's pool, without them.
  [[nodiscard]] bool belongs_to(pid_t process) const noexcept { return process_ == process; }

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

  /// Fewer threads than are wanted do the same work.
  void start_workers(std::int64_t wanted) {
    const auto serve = [](void* pool) -> void* {
      static_cast<Pool*>(pool)->serve();
      return nullptr;
    };
    while (workers_ < std::min(wanted, kMaxWorkers) && start_worker_thread(serve, this)) {
      ++workers_;
      forget_after_fork();
    }
  }

  [[noreturn]] void serve() {
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

  const pid_t process_;
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

/// The pool of this process; null if there is no memory for one. What a parent had is left alone: its locks may be held by
/// threads that do not exist here.
Pool* pool() noexcept {
  const pid_t process = getpid();
  Pool* found = current.load(std::memory_order_acquire);
  while (found == nullptr || !found->belongs_to(process)) {
    Pool* const made = new (std::nothrow) Pool(process);
    if (made == nullptr) return nullptr;
    if (current.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return made;
    delete made;  // another thread was first
  }
  return found;
}

}  // namespace

void run_tasks(const Executor* executor, std::int64_t number, Task task, void* job) noexcept {
  if (executor != nullptr) {
    executor->parallel_for(executor->context, number, task, job);
    return;
  }
  Pool* const threads = number > 1 ? pool() : nullptr;
  if (threads != nullptr) {
    threads->parallel_for(number, task, job);
  } else {
    for (std::int64_t i = 0; i < number; ++i) task(job, i);
  }
}

}  // namespace rtopk::cpu
