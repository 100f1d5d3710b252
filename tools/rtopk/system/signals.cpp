#include "system/signals.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

#include <unistd.h>

#include "terminal/failure.hpp"

namespace rtopk::tool {
namespace {

// A signal handler may use neither the heap nor locks, so its data are here.
char unfinished_name[64];
int unfinished_folder = -1;
std::atomic<bool> unfinished{false};
std::atomic<bool> ending{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void end_by_signal(int number) {
  remove_unfinished();
  // The default action, so that the shell sees which signal ended the program.
  std::signal(number, SIG_DFL);
  std::raise(number);
}

extern "C" void end_by_bus_error(int) {
  while (ending.exchange(true)) ::pause();  // several threads may read the file: only one reports it
  remove_unfinished();
  static constexpr char text[] =
      "rtopk: a file that was being read through memory became unreadable (shortened meanwhile, or a disk error)\n";
  if (::write(STDERR_FILENO, text, sizeof text - 1) < 0) ::_exit(exit_bad_input);
  ::_exit(exit_bad_input);
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  // A signal that is ignored (nohup) or has a handler (profilers, sanitizers) stays as it is.
  if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action = {};
  action.sa_handler = handler;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(number, &action, nullptr);
}

}  // namespace

void install_signal_handlers() noexcept {
  handle(SIGBUS, end_by_bus_error);
  // Every other signal whose default is to end the program.
  constexpr std::array others = {SIGBUS,  SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN,
                                 SIGTTOU, SIGCONT, SIGCHLD, SIGURG,  SIGWINCH};
  for (int number = 1; number < NSIG; ++number) {
    if (std::find(others.begin(), others.end(), number) == others.end()) handle(number, end_by_signal);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding a file-size limit then fails in write(), like a full disk
}

void remove_unfinished() noexcept {
  if (unfinished.exchange(false)) ::unlinkat(unfinished_folder, unfinished_name, 0);
}

void remove_on_signal(int folder, const char* name) noexcept {
  unfinished = false;
  if (name == nullptr) return;
  const std::size_t size = std::strlen(name) + 1;
  if (size > sizeof unfinished_name) return;
  std::memcpy(unfinished_name, name, size);
  unfinished_folder = folder;
  unfinished = true;
}

}  // namespace rtopk::tool
