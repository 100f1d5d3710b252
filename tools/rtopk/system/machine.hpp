// What measurements must say about where they were made.
#pragma once

#include <string>

namespace rtopk::tool {

[[nodiscard]] std::string cpu_model();
[[nodiscard]] std::string command_line();  ///< As it was typed, without the program's folder.
[[nodiscard]] std::string date_utc();      ///< "2025-01-31T12:00:00Z"

}  // namespace rtopk::tool
