// The commands of the program, one file each. `study` is in paper/study.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace rtopk::tool {

/// What main runs after it has read the command line. Returns the exit code.
using Action = std::function<int()>;

void add_select_command(CLI::App& app, Action& chosen);
void add_verify_command(CLI::App& app, Action& chosen);
void add_bench_command(CLI::App& app, Action& chosen);
void add_plan_command(CLI::App& app, Action& chosen);
void add_info_command(CLI::App& app, Action& chosen);
void add_study_command(CLI::App& app, Action& chosen);
void add_soak_command(CLI::App& app, Action& chosen);

}  // namespace rtopk::tool
