// Signals are for the main thread, which waits for the others and whose handlers tidy up.
#pragma once

#include <csignal>

namespace rtopk::tool {

/// While one of these lives, threads that are started take none of the process's signals. Those that a thread's own
/// instructions raise still reach their handlers: SIGBUS says that a mapped file has become shorter.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int own : {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP}) ::sigdelset(&blocked, own);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace rtopk::tool
