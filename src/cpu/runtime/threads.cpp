// The thread pool of the library.
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

/// Upper bound of workers, whatever the plan says: more would only wait for each other.
constexpr std::int64_t kMaxWorkers = 4095;

class Pool;

/// The latest pool. Access takes no lock: if a process forks while another thread holds a lock, the child would wait
/// forever.
constinit std::atomic<Pool*> current{nullptr};

/// Makes a forked child forget its parent's pool. Comparing process ids is not enough: in its own PID namespace, a
/// child can have the id of its parent. Call it only once this code cannot be unloaded any more.
void forget_after_fork() noexcept {
  static std::atomic<bool> registered{false};
  if (registered.exchange(true)) return;
  // If this fails (out of memory), only the process id tells a child from its parent.
  static_cast<void>(pthread_atfork(nullptr, nullptr, [] { current.store(nullptr, std::memory_order_relaxed); }));
}

/// Workers that sleep between jobs. Never destroyed: workers may outlive the statics of an exiting program.
class Pool {
 public:
  explicit Pool(pid_t process) : process_(process) {}

  /// True if its threads run in this process. After fork(), a child has a copy of its parent's pool, without threads.
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
    // Wait for workers that are still at the job. One that has not woken up yet will find no work.
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return working_ == 0; });
    task_ = nullptr;
  }

 private:
  void work(Task task, void* context, std::int64_t count) {
    for (std::int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count;) task(context, i);
  }

  /// If threads cannot be started, the existing ones do all the work.
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

/// The pool of this process; null if out of memory. Never touches a parent's pool: threads that do not exist here may
/// hold its locks.
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
