#include "cpu/runtime/worker_thread.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

#include <atomic>
#include <initializer_list>

namespace rtopk::cpu {
namespace {

/// The program itself is never unloaded, and cannot be opened as a library.
bool is_program(const Dl_info& object) noexcept {
#if defined(__linux__)
  Dl_info program;
  const auto* headers = reinterpret_cast<const void*>(getauxval(AT_PHDR));
  return headers != nullptr && dladdr(headers, &program) != 0 && program.dli_fbase == object.dli_fbase;
#else
  static_cast<void>(object);
  return false;
#endif
}

/// Makes sure that no dlclose takes the code away that threads run: that of librtopk.so, or of a plugin that the static
/// library was linked into. False if that could not be done for want of memory.
bool keep_code_loaded() noexcept {
  static std::atomic<bool> kept{false};
  if (kept.load(std::memory_order_relaxed)) return true;
  Dl_info object;
  const bool can_go = dladdr(reinterpret_cast<const void*>(&start_worker_thread), &object) != 0 &&
                      object.dli_fname != nullptr && !is_program(object);
  if (can_go && dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == nullptr) {
    static_cast<void>(dlerror());  // not what the program's own next dlerror() should say
    return false;
  }
  kept.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace

bool start_worker_thread(void* (*serve)(void* argument), void* argument) noexcept {
  if (!keep_code_loaded()) return false;
  sigset_t blocked;
  sigset_t before;
  sigfillset(&blocked);
  for (const int own : {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP}) sigdelset(&blocked, own);
  // A thread begins with the mask of the one that starts it: there is no moment in which it could take a signal.
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, serve, argument) == 0;
  if (started) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace rtopk::cpu
