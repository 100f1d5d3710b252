// Starts threads that block signals and keep the library loaded.
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

/// True for the program itself, which is never unloaded and cannot be opened as a library.
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

/// Makes sure that dlclose cannot unload the code that threads run: librtopk.so, or a plugin that links the static
/// library. False if memory is short.
bool keep_code_loaded() noexcept {
  static std::atomic<bool> kept{false};
  if (kept.load(std::memory_order_relaxed)) return true;
  Dl_info object;
  const bool can_go = dladdr(reinterpret_cast<const void*>(&start_worker_thread), &object) != 0 &&
                      object.dli_fname != nullptr && !is_program(object);
  if (can_go && dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == nullptr) {
    static_cast<void>(dlerror());  // clear the error, so that the program's next dlerror() does not report it
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
  // A thread inherits the mask of the thread that starts it, so it can never receive a blocked signal.
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, serve, argument) == 0;
  if (started) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace rtopk::cpu
