#include "system/thread_pool.hpp"

#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "system/blocked_signals.hpp"

namespace rtopk::tool {

ThreadPool::ThreadPool(int threads) {
  const BlockedSignals blocked;
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // the system cannot start more threads
  } catch (const std::bad_alloc&) {
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t count, const std::function<void(std::int64_t)>& task) {
  std::unique_lock lock(mutex_);
  task_ = &task;
  next_ = 0;
  count_ = count;
  error_ = nullptr;
  if (count > 1) wake_.notify_all();
  take_tasks(lock);
  finished_.wait(lock, [this] { return busy_ == 0; });
  task_ = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || next_ < count_; });
    if (stopping_) return;
    take_tasks(lock);
  }
}

void ThreadPool::take_tasks(std::unique_lock<std::mutex>& lock) {
  ++busy_;
  while (next_ < count_) {
    const std::int64_t index = next_++;
    const auto& task = *task_;
    lock.unlock();
    std::exception_ptr error;
    try {
      task(index);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) {
      if (!error_) error_ = error;
      next_ = count_;
    }
  }
  if (--busy_ == 0) finished_.notify_all();
}

void copy_bytes(const void* from, void* to, std::size_t bytes, ThreadPool& pool) {
  const auto tasks = static_cast<std::size_t>(pool.threads());
  pool.run(pool.threads(), [&](std::int64_t task) {
    constexpr std::size_t line = 64;
    const auto part = static_cast<std::size_t>(task);
    const std::size_t begin = bytes / line * part / tasks * line;
    const std::size_t end = part + 1 == tasks ? bytes : bytes / line * (part + 1) / tasks * line;
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin, end - begin);
  });
}

}  // namespace rtopk::tool
