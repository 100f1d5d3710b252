// The threads of the library. They must not disturb the process that they run in.
#pragma once

namespace rtopk::cpu {

/// Starts a thread that calls serve(argument) and is never joined. False if the system refuses to create one.
///
/// The thread blocks the signals of the process, which are meant for the program's own threads. Signals raised by its
/// own instructions (SIGBUS, SIGSEGV, ...) still reach their handlers. Once a thread has started, the shared object
/// that contains this code stays loaded: dlclose does not unload it.
bool start_worker_thread(void* (*serve)(void* argument), void* argument) noexcept;

}  // namespace rtopk::cpu
