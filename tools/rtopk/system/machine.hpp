// What a measurement records about the machine and the run.
#pragma once

#include <string>

namespace rtopk::tool {

[[nodiscard]] std::string cpu_model();
[[nodiscard]] std::string command_line();  ///< As typed, without the path of the program.
[[nodiscard]] std::string date_utc();      ///< "2025-01-31T12:00:00Z"

}  // namespace rtopk::tool
