// rtopk bench: times shapes or random problems, each beside a copy, and shapes on the CPU beside std::nth_element.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <rtopk/rtopk.hpp>

#include "bench/case.hpp"
#include "bench/grids.hpp"
#include "bench/random_problems.hpp"
#include "bench/report.hpp"
#include "bench/tables.hpp"
#include "command_line/options.hpp"
#include "commands/commands.hpp"
#include "files/output_file.hpp"
#include "system/cuda_device.hpp"
#include "system/machine.hpp"
#include "terminal/failure.hpp"
#include "terminal/line.hpp"
#include "terminal/text.hpp"

namespace rtopk::tool {
namespace {

constexpr int cpu_repeats = 5;
constexpr int gpu_repeats = 25;  // a run takes less time there
constexpr std::int64_t max_random_shapes = 1'000'000;

struct BenchOptions {
  std::vector<std::string> shapes;
  std::string grid;
  std::int64_t random_shapes = 0;  // 0: named shapes
  bool dry_run = false;
  int repeats = 0;  // 0: the device's default
  std::string json;
  SelectionFlags selection;
  std::optional<Family> family;
  MachineFlags machine;
  RandomFlags random;
  bool quiet = false;
};

std::vector<BenchShape> shapes_of(const BenchOptions& options, bool on_gpu) {
  std::vector<BenchShape> shapes;
  for (const std::string& text : options.shapes) {
    std::vector<std::int64_t> extents;
    if (!parse_extents(text, 3, extents)) fail("--shape '{}' is not a shape such as 65536x768x32", text);
    shapes.push_back({extents[0], extents[1], extents[2]});
  }
  if (!options.grid.empty()) {
    std::vector<std::string> names;
    bool known = false;
    for (const BenchGrid& grid : bench_grids()) {
      names.push_back(grid.name);
      if (grid.name != options.grid) continue;
      known = true;
      const std::vector<BenchShape>& chosen = on_gpu ? grid.gpu_shapes : grid.cpu_shapes;
      shapes.insert(shapes.end(), chosen.begin(), chosen.end());
    }
    if (!known) fail("--grid '{}' is none of {}", options.grid, fmt::join(names, ", "));
  }
  if (shapes.empty()) fail("nothing to time: give --shape ROWSxCOLSxK, --grid NAME or --random-shapes N");
  return shapes;
}

/// A dry run can be one for a GPU that is not here, as long as nothing depends on which GPU it is.
bool is_for_any_gpu(const BenchOptions& options) {
  return options.dry_run && options.machine.device && options.machine.device->kind == DeviceKind::cuda;
}

BenchSetting setting_of(const BenchOptions& options) {
  BenchSetting setting;
  setting.family = options.family;
  setting.seed = options.random.seed;
  setting.random_shapes = options.random_shapes > 0;
  if (is_for_any_gpu(options)) {
    if (options.family) fail("--family with --dry-run --device cuda: what a family takes depends on the GPU");
    setting.machine.traits.device = *options.machine.device;
    return setting;
  }
  setting.machine = resolve(options.machine);
  const bool on_gpu = setting.machine.is_gpu();
  setting.repeats = options.repeats > 0 ? options.repeats : on_gpu ? gpu_repeats : cpu_repeats;
  setting.where = on_gpu ? gpu::info(setting.machine.traits.device.ordinal).name : cpu_model();
  return setting;
}

/// Whether there is a plan for the problem.
Status planned(Problem problem, const BenchOptions& options, const BenchSetting& setting) {
  Plan plan;
  if (!is_for_any_gpu(options)) return plan_for(problem, setting.machine.traits, options.family, plan);
  problem.device = {};  // what a problem may be is the same on all devices
  return make_plan(problem, Traits{}, plan);
}

struct BenchCases {
  std::vector<BenchCase> cases;
  std::int64_t left_out = 0;  ///< Random problems that the options leave without a plan.
};

BenchCases named_cases(const BenchOptions& options, const BenchSetting& setting) {
  BenchCases named;
  for (const BenchShape& shape : shapes_of(options, setting.machine.is_gpu())) {
    BenchCase bench{.number = static_cast<std::int64_t>(named.cases.size()),
                    .problem = {.rows = shape.rows,
                                .cols = shape.cols,
                                .k = shape.k,
                                .dtype = options.selection.dtype.value_or(DType::f32),
                                .device = setting.machine.traits.device},
                    .data = options.random.distribution.value_or(Distribution::normal),
                    .seed = options.random.seed,
                    .distinct_rows = shape.rows};
    apply(options.selection, bench.problem);
    const Status status = planned(bench.problem, options, setting);
    if (!status.ok()) fail("shape {}x{}x{}: {}", shape.rows, shape.cols, shape.k, status.text());
    if (shape.rows == 0) fail("shape 0x{}x{}: there is nothing to time without rows", shape.cols, shape.k);
    named.cases.push_back(bench);
  }
  return named;
}

BenchCases random_cases(const BenchOptions& options, const BenchSetting& setting) {
  BenchCases drawn;
  std::string why;
  for (std::int64_t number = 0; number < options.random_shapes; ++number) {
    BenchCase bench = random_problem(setting.seed, number, setting.machine.traits.device, options.selection);
    if (options.random.distribution) bench.data = *options.random.distribution;
    const Status status = planned(bench.problem, options, setting);
    if (status.ok()) {
      drawn.cases.push_back(bench);
    } else {
      ++drawn.left_out;
      why = status.text();
    }
  }
  if (drawn.cases.empty()) fail("--random-shapes: the options leave no problem that can be run: {}", why);
  return drawn;
}

/// What is left out is said aloud: a mean over other problems is another number.
void print_left_out(std::int64_t left_out) {
  if (left_out > 0) fmt::print("{} problems were left out: the options do not go with them\n", left_out);
}

/// Times the cases one after the other.
std::vector<BenchResult> measure(const std::vector<BenchCase>& cases, const BenchSetting& setting,
                                 const BenchTable* table, bool progress) {
  const std::unique_ptr<BenchRunner> runner = (setting.machine.is_gpu() ? gpu_bench : cpu_bench)(setting);
  TerminalLine line(progress);
  std::vector<BenchResult> results;
  for (const BenchCase& bench : cases) {
    const Problem& problem = bench.problem;
    line.show(fmt::format("bench {}/{}: {} rows of {}, k {}", results.size() + 1, cases.size(), problem.rows,
                          problem.cols, problem.k));
    results.push_back(runner->measure(bench));
    line.clear();
    if (table != nullptr) table->print(results.back());
  }
  return results;
}

int bench(const BenchOptions& options) {
  const BenchSetting setting = setting_of(options);
  // All are checked before the first is timed, so that a typing error does not cost results.
  const auto [cases, left_out] = (setting.random_shapes ? random_cases : named_cases)(options, setting);
  std::optional<OutputFile> file;
  const bool json_to_stdout = options.json == "-";
  if (!options.json.empty() && !json_to_stdout) file.emplace(options.json);
  const bool print = !json_to_stdout && !options.quiet;

  std::string json;
  bool correct = true;
  if (options.dry_run) {
    if (print) print_cases(cases);
    if (print) print_left_out(left_out);
    json = cases_json(setting.machine.traits.device, cases, left_out);
  } else {
    const std::unique_ptr<BenchTable> table = (setting.random_shapes ? problem_table : shape_table)(setting);
    if (print) table->print_header(cases);
    std::fflush(stdout);
    const std::vector<BenchResult> results = measure(cases, setting, print ? table.get() : nullptr, !options.quiet);
    for (const BenchResult& result : results) correct = correct && result.violation.empty();
    if (print) table->print_footer(results);
    if (print) print_left_out(left_out);
    json = report_json(setting, results, left_out);
  }
  if (json_to_stdout) fmt::print("{}", json);
  if (file) {
    file->write_at(0, json);
    file->commit();
    if (print) fmt::print("wrote {}\n", printable(options.json));
  }
  return correct ? 0 : exit_broken_contract;
}

}  // namespace

void add_bench_command(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Time selections beside a copy, and check their results");
  CLI::Option* const shape =
      command->add_option("--shape", options->shapes, "A shape to time; may be given several times")
          ->type_name("ROWSxCOLSxK");
  std::string names;
  std::string about;
  for (const BenchGrid& grid : bench_grids()) {
    names += (names.empty() ? "" : "|") + grid.name;
    about += fmt::format("  {:<7} {}\n          CPU: {} ({} shapes); GPU: {} ({} shapes)\n", grid.name, grid.about,
                         grid.cpu_size, grid.cpu_shapes.size(), grid.gpu_size, grid.gpu_shapes.size());
  }
  CLI::Option* const grid = command->add_option("--grid", options->grid, "A named set of shapes")->type_name(names);
  command
      ->add_option("--random-shapes", options->random_shapes,
                   "Time problems 0 to N-1 of --seed instead, with shapes that nobody chose")
      ->check(CLI::Range(std::int64_t{1}, max_random_shapes).description(""))
      ->type_name("N")
      ->excludes(shape)
      ->excludes(grid);
  command->add_flag("--dry-run", options->dry_run,
                    "Show what would be timed, and time nothing; with --device cuda also where there is no GPU");
  command
      ->add_option("--repeats", options->repeats,
                   "Samples per shape; their median is reported (default: 5 on the CPU, 25 on a GPU)")
      ->check(CLI::Range(1, 10000).description(""))
      ->type_name("N");
  command
      ->add_option("--json", options->json, "Also write the results as JSON to a file, or to the standard output (-)")
      ->type_name("FILE|-");
  add_selection_flags(*command, options->selection);
  add_family_flag(*command, options->family);
  add_distribution_flags(*command, options->random);
  add_machine_flags(*command, options->machine);
  command->add_flag("-q,--quiet", options->quiet, "No progress and no table");
  command->footer(
      "Grids (N rows, M columns):\n" + about +
      "\n"
      "Inputs are random and alternate between runs, so that a matrix larger than the caches is read from\n"
      "memory every time. Some rows are checked against the reference: exit code 1 if one breaks the\n"
      "contract.\n"
      "\n"
      "The floor is the time of a copy. On the CPU, of the matrix, with the same threads; std::nth_element\n"
      "is timed as well. On a GPU, of as many bytes as the matrix and the results have. There, copy and\n"
      "selection alternate, the L2 cache is overwritten before each, and the GPU's own clock is used.\n"
      "\n"
      "Random problems have 8 to 262144 columns and k up to half of them, both uniform in the logarithm, and\n"
      "2^18 to 2^22 elements on the CPU, 2^24.5 to 2^28.5 on a GPU; any type, form, order and direction;\n"
      "half of them rows off alignment or at a stride; normal rows, rows of other scales, two humps, softmax,\n"
      "zeros, constant rows, infinities. Options such as --dtype, --form and --dist replace what was drawn;\n"
      "problems that they, or --family, do not go with are left out. The floor on a GPU counts the whole\n"
      "32-byte sectors that the rows touch. std::nth_element is not timed.\n"
      "\n"
      "Examples:\n"
      "  rtopk bench --shape 65536x768x32 --shape 65536x768x64\n"
      "  rtopk bench --grid sweep --device cpu --threads 1 --json sweep.json\n"
      "  rtopk bench --grid paper --max-iter 4 --dtype bf16\n"
      "  rtopk bench --shape 65536x768x32 --family cpu_stream --device cpu\n"
      "  rtopk bench --random-shapes 200 --seed 7 --json random.json\n"
      "  rtopk bench --random-shapes 200 --seed 7 --dry-run --device cuda --json -");
  command->callback([options, &chosen] { chosen = [options] { return bench(*options); }; });
}

}  // namespace rtopk::tool
