// What happens when a signal ends the program: the unfinished output file goes away first.
#pragma once

namespace rtopk::tool {

/// Installs the handlers. Called once, at the start.
void install_signal_handlers() noexcept;

/// Names the one file to remove if a signal ends the program; null: none. Copies the path, which must be shorter than
/// 4096 bytes.
void remove_on_signal(const char* path) noexcept;

}  // namespace rtopk::tool
