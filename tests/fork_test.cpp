// Forked children of processes that use the library's threads: the threads do not exist in a child, and a lock that
// one of them held stays locked.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "selected_rows.hpp"

namespace {
// A thread that sets the first stops in its next allocation until the second is set.
thread_local bool stops_in_new = false;
std::atomic<bool> go_on{false};
std::atomic<bool> stopped{false};

void* allocated(std::size_t bytes) noexcept {
  if (stops_in_new) {
    stops_in_new = false;
    stopped = true;
    while (!go_on) std::this_thread::yield();
  }
  return std::malloc(bytes != 0 ? bytes : 1);
}
}  // namespace

#if defined(__GNUC__) && !defined(__clang__)
// If GCC inlines these, it warns about free().
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(std::size_t bytes) {
  void* const memory = allocated(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocated(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace rtopk_test {
namespace {

constexpr std::int32_t kThreads = 3;
// Timeout of forked processes in seconds: one that exceeds it waits for a lock that stays locked.
constexpr unsigned kPatience = 60;

/// Runs `body` in a child. Empty if it returned true there, else the reason.
template <class Body>
std::string in_child(Body&& body) {
  const pid_t child = fork();
  if (child < 0) return "fork failed";
  if (child == 0) {
    alarm(kPatience);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return "waitpid failed";
  if (WIFSIGNALED(status))
    return "ended by signal " + std::to_string(WTERMSIG(status)) + " (14: it did not end by itself)";
  return WEXITSTATUS(status) == 0 ? "" : "selected something else";
}

class Fork : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not support threads after fork()";
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
    GTEST_SKIP() << "ThreadSanitizer does not support threads after fork()";
#endif
#endif
  }
};

TEST_F(Fork, AChildStartsThreadsOfItsOwn) {
  SelectedRows rows(kThreads);
  ASSERT_TRUE(rows.right());  // the parent's threads exist now
  EXPECT_EQ(in_child([&] { return rows.right() && in_child([&] { return rows.right(); }).empty(); }), "");
  EXPECT_TRUE(rows.right());
}

// A pool's lock used to be held at this moment (3 of 1,500 forks): another thread is creating the pool. The test makes
// that moment last.
TEST_F(Fork, WhileAnotherThreadMakesThePool) {
  SelectedRows first(kThreads);
  SelectedRows second(kThreads);
  // In a separate process, which has no pool yet.
  EXPECT_EQ(in_child([&] {
              std::atomic<bool> ended{false};
              bool first_was_right = false;
              std::thread other([&] {
                stops_in_new = true;
                first_was_right = first.right();
                ended = true;
              });
              while (!stopped && !ended) std::this_thread::yield();
              const bool in_time = stopped;  // if not, the pool no longer allocates here: stop it elsewhere
              const std::string of_child = in_child([&] { return second.right(); });
              go_on = true;
              other.join();
              return in_time && first_was_right && of_child.empty() && second.right();
            }),
            "");
}

TEST_F(Fork, FromSeveralThreadsWhileOthersSelect) {
  constexpr int kSelecting = 2;
  constexpr int kForking = 2;
  const std::int64_t forks = scaled(60);
  std::vector<std::unique_ptr<SelectedRows>> all;
  for (int i = 0; i < kSelecting + kForking; ++i) all.push_back(std::make_unique<SelectedRows>(kThreads));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::string> failures(kForking);
  std::vector<std::thread> threads;
  for (int i = 0; i < kSelecting; ++i) {
    threads.emplace_back([&, i] {
      while (!stop) wrong += all[static_cast<std::size_t>(i)]->right() ? 0 : 1;
    });
  }
  for (int i = 0; i < kForking; ++i) {
    threads.emplace_back([&, i] {
      SelectedRows& own = *all[static_cast<std::size_t>(kSelecting + i)];
      std::string& failure = failures[static_cast<std::size_t>(i)];
      for (std::int64_t n = 0; n < forks && failure.empty(); ++n) failure = in_child([&] { return own.right(); });
    });
  }
  for (int i = kSelecting; i < kSelecting + kForking; ++i) threads[static_cast<std::size_t>(i)].join();
  stop = true;
  for (int i = 0; i < kSelecting; ++i) threads[static_cast<std::size_t>(i)].join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  EXPECT_EQ(wrong, 0);
}

TEST_F(Fork, FromInsideAnExecutor) {
  struct Inside {
    SelectedRows other{kThreads};
    std::string of_child = "was never asked";
  } inside;
  ASSERT_TRUE(inside.other.right());
  const rtopk::Executor forks{
      [](void* context, std::int64_t count, void (*task)(void*, std::int64_t), void* task_context) {
        auto& own = *static_cast<Inside*>(context);
        own.of_child = in_child([&] {
          for (std::int64_t i = 0; i < count; ++i) task(task_context, i);
          return own.other.right();
        });
        for (std::int64_t i = 0; i < count; ++i) task(task_context, i);
      },
      &inside};
  SelectedRows rows(kThreads);
  EXPECT_TRUE(rows.right(&forks));
  EXPECT_EQ(inside.of_child, "");
}

}  // namespace
}  // namespace rtopk_test
