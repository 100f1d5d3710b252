#include "signals.hpp"

#include <atomic>
#include <csignal>
#include <cstring>

#include <unistd.h>

#include "failure.hpp"

namespace rtopk::tool {
namespace {

// A handler may touch little more than this: no heap, no locks.
char unfinished_path[4096];
std::atomic<bool> unfinished{false};
std::atomic<bool> ending{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void remove_unfinished() noexcept {
  if (unfinished.exchange(false)) ::unlink(unfinished_path);
}

extern "C" void end_by_signal(int number) {
  remove_unfinished();
  // The default action, so that the shell sees that a signal ended us.
  std::signal(number, SIG_DFL);
  std::raise(number);
}

extern "C" void end_by_bus_error(int) {
  while (ending.exchange(true)) ::pause();  // several threads read: one of them says it
  remove_unfinished();
  static constexpr char text[] =
      "rtopk: a file that was being read through memory became unreadable (shortened meanwhile, or a disk error)\n";
  if (::write(STDERR_FILENO, text, sizeof text - 1) < 0) ::_exit(exit_bad_input);
  ::_exit(exit_bad_input);
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) return;  // nohup: keep ignoring
  action = {};
  action.sa_handler = handler;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(number, &action, nullptr);
}

}  // namespace

void install_signal_handlers() noexcept {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) handle(number, end_by_signal);
  handle(SIGBUS, end_by_bus_error);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit becomes an error of write, like a full disk
}

void remove_on_signal(const char* path) noexcept {
  unfinished = false;
  if (path == nullptr) return;
  const std::size_t size = std::strlen(path) + 1;
  if (size > sizeof unfinished_path) return;
  std::memcpy(unfinished_path, path, size);
  unfinished = true;
}

}  // namespace rtopk::tool
