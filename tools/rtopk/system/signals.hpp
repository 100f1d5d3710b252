// What happens when a signal ends the program: the unfinished output file goes away first.
#pragma once

namespace rtopk::tool {

/// Installs the handlers. Called once, at the start.
void install_signal_handlers() noexcept;

/// Says which one file to remove if a signal ends the program: `name` in an open folder. Copies the name, which must be
/// shorter than 64 bytes; null: none.
void remove_on_signal(int folder, const char* name) noexcept;

/// Removes it now: for any other end of the program at which no destructor runs.
void remove_unfinished() noexcept;

}  // namespace rtopk::tool
