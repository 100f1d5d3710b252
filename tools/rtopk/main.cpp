// The program rtopk: reads the command line, runs one command, and turns every error into one line and an exit code.
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <rtopk/rtopk.hpp>

#include "command_line/help_formatter.hpp"
#include "commands/commands.hpp"
#include "system/signals.hpp"
#include "terminal/failure.hpp"
#include "terminal/text.hpp"

namespace {

using namespace rtopk::tool;

constexpr const char* no_memory = "not enough memory";

/// Prints one line, whatever characters `text` has. Allocates nothing, since memory may have run out.
int fail_with(std::string_view text) noexcept {
  std::array<char, 4096> line{};
  std::size_t size = 0;
  const auto add = [&](std::string_view piece) {
    if (size + piece.size() > line.size()) {
      std::fwrite(line.data(), 1, size, stderr);
      size = 0;
    }
    size += piece.copy(line.data() + size, piece.size());
  };
  add("rtopk: ");
  while (!text.empty()) add(PrintableCharacter(text).view());
  add("\n");
  std::fwrite(line.data(), 1, size, stderr);
  return exit_bad_input;
}

std::terminate_handler abort_with_a_report = nullptr;

/// Called for exceptions that main cannot catch: in constructors of global objects, or in noexcept functions. If memory
/// has run out, the program ends with a message there too, not with a core dump.
[[noreturn]] void end_outside_of_main() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    remove_unfinished();
    ::_exit(fail_with(no_memory));
  } catch (...) {
  }
  abort_with_a_report();
  std::abort();
}

// 101 is the first priority that programs may use: this runs before the constructors of global objects.
[[gnu::constructor(101)]] void prepare_to_end() { abort_with_a_report = std::set_terminate(end_outside_of_main); }

int run_program(int argc, char** argv) {
  CLI::App app{"Row-wise top-k selection: the k largest elements of every row of a matrix, with their indices.",
               "rtopk"};
  app.set_version_flag("--version", std::string("rtopk ") + rtopk::version());
  app.formatter(std::make_shared<HelpFormatter>());  // before the commands, which inherit it
  app.require_subcommand(0, 1);
  Action chosen;
  add_select_command(app, chosen);
  add_verify_command(app, chosen);
  add_bench_command(app, chosen);
  add_plan_command(app, chosen);
  add_study_command(app, chosen);
  add_soak_command(app, chosen);
  add_info_command(app, chosen);
  app.footer(
      "`rtopk COMMAND --help` describes a command.\n"
      "\n"
      "Examples:\n"
      "  rtopk select scores.npy -k 32 -o top.npz     the 32 largest of every row\n"
      "  rtopk verify scores.npy top.npz              check that result\n"
      "  rtopk select --random 65536x768 -k 32        select from a random matrix and print some rows\n"
      "  rtopk bench --shape 65536x768x32             time it, beside a copy and std::nth_element\n"
      "  rtopk study table1                           recompute a table of the paper\n"
      "\n"
      "Exit codes: 0 success; 1 a selection breaks the contract; 2 bad input (see the line on stderr).");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const CLI::App* where = &app;
    for (const CLI::App* command : app.get_subcommands()) where = command;
    const std::string command = where == &app ? "rtopk" : "rtopk " + where->get_name();
    return fail_with(fmt::format("{} (see {} --help)", error.what(), command));
  }
  if (!chosen)
    return fail_with("a command is needed: select, verify, bench, plan, study, soak or info (see rtopk --help)");
  return chosen();
}

}  // namespace

int main(int argc, char** argv) {
  install_signal_handlers();
  int code = exit_bad_input;
  try {
    code = run_program(argc, argv);
  } catch (const std::bad_alloc&) {
    return fail_with(no_memory);
  } catch (const std::exception& error) {
    return fail_with(error.what());
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return fail_with("cannot write to the standard output");
  return code;
}
