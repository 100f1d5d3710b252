// The thread pool of the program rtopk: uses as many threads as the system allows, and blocks signals.
#include "system/thread_pool.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

namespace rtopk_test {
namespace {

using rtopk::tool::ThreadPool;

/// True if a run executes every task exactly once.
bool does_all(ThreadPool& pool) {
  std::vector<std::atomic<int>> done(1000);
  pool.run(1000, [&](std::int64_t i) { ++done[static_cast<std::size_t>(i)]; });
  for (const std::atomic<int>& times : done) {
    if (times != 1) return false;
  }
  return true;
}

std::size_t address_space() {
  std::size_t pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file != nullptr) {
    if (std::fscanf(file, "%zu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(ThreadPools, WorkWithTheThreadsThatCouldBeStarted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more address space than there is";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers need more address space than there is";
#endif
#endif
  const std::size_t now = address_space();
  if (now == 0) GTEST_SKIP() << "/proc/self/statm is not here";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr std::size_t kRoom = std::size_t{64} << 20;  // space for a few stacks
    const rlimit limit{now + kRoom, now + kRoom};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    ThreadPool pool(4096);
    if (pool.threads() >= 4096) _exit(3);
    _exit(does_all(pool) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(ThreadPools, LeaveSignalsToTheThreadThatStartsThem) {
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  ThreadPool pool(4);
  sigset_t after;
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  EXPECT_EQ(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> elsewhere{0};
  std::atomic<int> wrong{0};
  // Each task waits for the other, so two threads must run them.
  pool.run(2, [&](std::int64_t) {
    ++elsewhere;
    while (elsewhere < 2) std::this_thread::yield();
    if (std::this_thread::get_id() == caller) return;
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGALRM, SIGCHLD, SIGRTMIN}) {
      wrong += sigismember(&mask, number) == 1 ? 0 : 1;
    }
    for (const int number : {SIGBUS, SIGSEGV, SIGFPE}) wrong += sigismember(&mask, number) == 0 ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace rtopk_test
