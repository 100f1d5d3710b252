// Signals that end the program: the unfinished output file is removed first.
#pragma once

namespace rtopk::tool {

/// Installs the handlers. Called once, at the start.
void install_signal_handlers() noexcept;

/// Names the file to remove if a signal ends the program: `name` in an open folder; null for none. Copies the name,
/// which must be shorter than 64 bytes.
void remove_on_signal(int folder, const char* name) noexcept;

/// Removes that file now. For other ends of the program at which no destructor runs.
void remove_unfinished() noexcept;

}  // namespace rtopk::tool
