// rtopk plan: what would run for a shape, with its numbers and its workspace.
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <rtopk/rtopk.hpp>

#include "failure.hpp"
#include "options.hpp"
#include "text.hpp"

namespace rtopk::tool {
namespace {

struct PlanOptions {
  std::string shape;
  SelectionFlags selection;
  MachineFlags machine;
  bool json = false;
};

/// A plan's text is one `name=value` per line; whole numbers become numbers.
nlohmann::ordered_json plan_json(const Plan& plan) {
  nlohmann::ordered_json json;
  std::istringstream lines(to_string(plan));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string value = line.substr(equals + 1);
    auto parsed = nlohmann::ordered_json::parse(value, nullptr, false);
    json[line.substr(0, equals)] = parsed.is_number() ? std::move(parsed) : nlohmann::ordered_json(value);
  }
  return json;
}

int plan(const PlanOptions& options) {
  std::vector<std::int64_t> extents;
  if (!parse_extents(options.shape, 3, extents))
    fail("--shape '{}' is not a shape such as 65536x768x32", options.shape);
  const Traits traits = resolve(options.machine);
  Problem problem{.rows = extents[0],
                  .cols = extents[1],
                  .k = extents[2],
                  .dtype = options.selection.dtype.value_or(DType::f32),
                  .device = traits.device};
  apply(options.selection, problem);
  Plan made;
  require(make_plan(problem, traits, made));
  if (options.json) {
    fmt::print("{}\n", plan_json(made).dump(2));
    return 0;
  }
  std::istringstream lines(to_string(made));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) {
      fmt::print("{}\n", line);
    } else {
      fmt::print("{:<20}{}\n", line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Show what would run for a shape, and the workspace it needs");
  command->add_option("--shape", options->shape, "The problem's rows, columns and k")
      ->type_name("ROWSxCOLSxK")
      ->required();
  add_selection_flags(*command, options->selection);
  add_machine_flags(*command, options->machine);
  command->add_flag("--json", options->json, "As JSON");
  command->footer(
      "Examples:\n"
      "  rtopk plan --shape 65536x768x32\n"
      "  rtopk plan --shape 256x65536x64 --dtype bf16 --sorted --threads 4 --json");
  command->callback([options, &chosen] { chosen = [options] { return plan(*options); }; });
}

}  // namespace rtopk::tool
