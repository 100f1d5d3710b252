// The library's threads take none of the process's signals.
#include <gtest/gtest.h>

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "selected_rows.hpp"

namespace rtopk_test {
namespace {

std::atomic<int> taken{0};

/// All that a process can be sent, but for those that end or stop it anyway and those that mean a thread's own mistakes.
std::vector<int> signals_of_a_process() {
  std::vector<int> all;
  for (int number = 1; number < SIGRTMAX; ++number) {
    const bool own = number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGSEGV ||
                     number == SIGSYS || number == SIGTRAP;
    const bool of_the_c_library = number > 31 && number < SIGRTMIN;
    // A SIGCONT that waits is dropped when a signal comes that stops.
    if (number != SIGKILL && number != SIGSTOP && number != SIGCONT && !own && !of_the_c_library) all.push_back(number);
  }
  return all;
}

TEST(WorkerSignals, WaitForAThreadOfTheProgram) {
  const std::vector<int> numbers = signals_of_a_process();
  sigset_t all;
  sigemptyset(&all);
  for (const int number : numbers) {
    struct sigaction action {};
    action.sa_handler = [](int) { ++taken; };
    ASSERT_EQ(sigaction(number, &action, nullptr), 0) << number;
    sigaddset(&all, number);
  }
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  SelectedRows rows(4);
  ASSERT_TRUE(rows.right());  // the threads exist now
  sigset_t after;
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (const int number : numbers) EXPECT_EQ(sigismember(&before, number), sigismember(&after, number)) << number;

  // No thread of the program wants them now. Whoever takes one is a worker, and they are all awake.
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (const int number : numbers) kill(getpid(), number);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(rows.right());
  EXPECT_EQ(taken, 0);
  for (const int number : numbers) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    const timespec at_once{};
    EXPECT_EQ(sigtimedwait(&one, nullptr, &at_once), number) << "somebody else took it";
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  for (const int number : numbers) signal(number, SIG_DFL);
}

}  // namespace
}  // namespace rtopk_test
