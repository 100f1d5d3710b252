// rtopk plan: the plan for a shape, with its config and its workspace.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <rtopk/rtopk.hpp>

#include "command_line/options.hpp"
#include "commands/commands.hpp"
#include "selection/names.hpp"
#include "terminal/failure.hpp"
#include "terminal/text.hpp"
#include "terminal/words.hpp"

namespace rtopk::tool {
namespace {

struct PlanOptions {
  std::string shape;
  SelectionFlags selection;
  bool ragged = false;
  bool magnitude = false;
  std::optional<Family> family;
  MachineFlags machine;
  int compute_capability = 0;  // 0: use a device of this machine
  int multiprocessors = 0;     // 0: as many as the largest GPU of this compute capability
  bool json = false;
};

/// What a plan needs to know about a GPU that is not in this machine.
struct GpuKind {
  int compute_capability;
  int multiprocessors;       ///< Of the largest GPU of this compute capability.
  int shared_kib_per_block;  ///< From the CUDA programming guide's table of compute capabilities.
};
constexpr auto gpu_kinds = std::to_array<GpuKind>({{80, 108, 163},    // A100
                                                   {86, 84, 99},      // RTX 3090 Ti, A40
                                                   {89, 142, 99},     // RTX 4090, L40
                                                   {90, 132, 227},    // H100, H200
                                                   {100, 148, 227},   // B200
                                                   {103, 160, 227},   // B300
                                                   {120, 188, 99}});  // RTX 5090, RTX PRO 6000

Traits gpu_that_is_not_here(const PlanOptions& options) {
  const Device device = options.machine.device.value_or(Device{.kind = DeviceKind::cuda, .ordinal = 0});
  if (device.kind != DeviceKind::cuda) fail("--compute-capability needs a GPU, but --device is cpu; accepted: cuda");
  std::vector<int> known;
  for (const GpuKind& kind : gpu_kinds) {
    known.push_back(kind.compute_capability);
    if (kind.compute_capability != options.compute_capability) continue;
    const int multiprocessors = options.multiprocessors > 0 ? options.multiprocessors : kind.multiprocessors;
    return Traits{.device = device,
                  .compute_capability = kind.compute_capability,
                  .multiprocessors = multiprocessors,
                  .shared_bytes_per_block = std::int64_t{kind.shared_kib_per_block} * 1024};
  }
  fail("--compute-capability {} is none of {}", options.compute_capability, fmt::join(known, ", "));
}

/// A plan's text is one `name=value` per line; whole numbers become numbers.
nlohmann::ordered_json plan_json(const Plan& plan) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const std::string text = to_string(plan);
  for (const std::string_view line : lines_of(text)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view value = line.substr(equals + 1);
    auto parsed = nlohmann::ordered_json::parse(value, nullptr, false);
    json[std::string(line.substr(0, equals))] = parsed.is_number() ? std::move(parsed) : nlohmann::ordered_json(value);
  }
  return json;
}

int plan(const PlanOptions& options) {
  std::vector<std::int64_t> extents;
  if (!parse_extents(options.shape, 3, extents))
    fail("--shape '{}' is not a shape such as 65536x768x32", options.shape);
  const Traits traits =
      options.compute_capability > 0 ? gpu_that_is_not_here(options) : resolve(options.machine).traits;
  Problem problem{.rows = extents[0],
                  .cols = extents[1],
                  .k = extents[2],
                  .dtype = options.selection.dtype.value_or(DType::f32),
                  .device = traits.device};
  apply(options.selection, problem);
  if (options.ragged) problem.ragged.lengths = ArrayType::i32;
  problem.magnitude = options.magnitude;
  Plan made;
  require(plan_for(problem, traits, options.family, made));
  if (options.json) {
    fmt::print("{}\n", plan_json(made).dump(2));
    return 0;
  }
  const std::string text = to_string(made);
  for (const std::string_view line : lines_of(text)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
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
  CLI::App* command = app.add_subcommand("plan", "Show the plan for a shape: family, config and workspace");
  command->add_option("--shape", options->shape, "The problem's rows, columns and k")
      ->type_name("ROWSxCOLSxK")
      ->required();
  add_selection_flags(*command, options->selection);
  command->add_flag("--ragged", options->ragged, "Rows have lengths of their own; COLS is the greatest")
      ->group("Selection");
  command->add_flag("--magnitude", options->magnitude, "Compare absolute values")->group("Selection");
  add_family_flag(*command, options->family);
  add_machine_flags(*command, options->machine);
  CLI::Option* capability =
      command
          ->add_option("--compute-capability", options->compute_capability,
                       "Plan for a GPU that this machine does not have: 80, 86, 89, 90, 100, 103 or 120")
          ->check(CLI::PositiveNumber.description(""))
          ->type_name("N")
          ->group("Machine");
  command
      ->add_option("--multiprocessors", options->multiprocessors,
                   "Number of multiprocessors of that GPU (default: as many as the largest one has)")
      ->check(CLI::Range(1, 4096).description(""))
      ->needs(capability)
      ->type_name("N")
      ->group("Machine");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  rtopk plan --shape 65536x768x32\n"
      "  rtopk plan --shape 256x65536x64 --dtype bf16 --sorted --device cpu --threads 4 --json\n"
      "  rtopk plan --shape 65536x768x32 --compute-capability 80\n"
      "  rtopk plan --shape 256x131072x2048 --ragged --compute-capability 90\n"
      "  rtopk plan --shape 65536x768x32 --compute-capability 90 --family cuda_radix\n"
      "\n"
      "Families:\n  " +
      names_of<Family>("\n  "));
  command->callback([options, &chosen] { chosen = [options] { return plan(*options); }; });
}

}  // namespace rtopk::tool
