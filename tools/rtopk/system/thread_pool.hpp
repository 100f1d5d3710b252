// Threads for making inputs, for checking results and for the baselines of a benchmark. The library has its own
// threads.
//
// Neither the standard library nor TBB or OpenMP has what this needs together: threads that handle no signals, fewer
// threads instead of an error where the system refuses some, and an exact number of threads for fair baselines.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rtopk::tool {

class ThreadPool {
 public:
  /// The calling thread is one of `threads`. If the system refuses to start some, there are fewer.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  /// Calls task(i) for every i in [0, count), starting them in ascending order. If a task throws, no further task
  /// starts, and the first exception is thrown here when all started tasks have ended.
  void run(std::int64_t count, const std::function<void(std::int64_t)>& task);

 private:
  void work();
  void take_tasks(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable finished_;
  const std::function<void(std::int64_t)>* task_ = nullptr;
  std::int64_t next_ = 0;
  std::int64_t count_ = 0;
  int busy_ = 0;
  std::exception_ptr error_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

/// Copies with every thread of the pool.
void copy_bytes(const void* from, void* to, std::size_t bytes, ThreadPool& pool);

}  // namespace rtopk::tool
