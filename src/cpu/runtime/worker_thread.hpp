// The threads that the library starts: guests in a process that is not theirs.
#pragma once

namespace rtopk::cpu {

/// Starts a thread that calls serve(argument) and is never joined. False if the system has none to give.
///
/// It takes none of the process's signals, which are meant for the program's own threads; those that a thread's own
/// instructions raise (SIGBUS, SIGSEGV, ...) still reach their handlers. From the first thread on, the shared object that this
/// code is in stays loaded whatever is passed to dlclose.
bool start_worker_thread(void* (*serve)(void* argument), void* argument) noexcept;

}  // namespace rtopk::cpu
