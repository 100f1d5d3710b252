// The library's threads must not receive the signals of the process.
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

/// All signals for a process, except those that end or stop it anyway and those raised by a thread's own instructions.
std::vector<int> signals_of_a_process() {
  std::vector<int> all;
  for (int number = 1; number < SIGRTMAX; ++number) {
    const bool own = number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGSEGV ||
                     number == SIGSYS || number == SIGTRAP;
    const bool of_the_c_library = number > 31 && number < SIGRTMIN;
    // A pending SIGCONT is dropped when a stop signal arrives.
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

  // All threads of the program block the signals now, and all workers are awake: only a worker could receive one.
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
