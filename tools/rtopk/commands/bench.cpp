// rtopk bench: times shapes, each beside a copy, and on the CPU beside std::nth_element.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <rtopk/rtopk.hpp>

#include "bench/case.hpp"
#include "bench/grids.hpp"
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

using Json = nlohmann::ordered_json;

constexpr int cpu_repeats = 5;
constexpr int gpu_repeats = 25;  // a run takes less time there

struct BenchOptions {
  std::vector<std::string> shapes;
  std::string grid;
  int repeats = 0;  // 0: the device's default
  std::string json;
  SelectionFlags selection;
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
  if (shapes.empty()) fail("nothing to time: give --shape ROWSxCOLSxK or --grid NAME");
  return shapes;
}

/// What all shapes of a table share.
struct BenchSetting {
  Machine machine;
  int repeats = 0;
  std::string where;  ///< Name of the CPU or GPU.
};

BenchSetting setting_of(const BenchOptions& options) {
  BenchSetting setting;
  setting.machine = resolve(options.machine);
  const bool on_gpu = setting.machine.is_gpu();
  setting.repeats = options.repeats > 0 ? options.repeats : on_gpu ? gpu_repeats : cpu_repeats;
  setting.where = on_gpu ? gpu::info(setting.machine.traits.device.ordinal).name : cpu_model();
  return setting;
}

void print_header(const Problem& problem, const BenchOptions& options, const BenchSetting& setting) {
  const std::string mode = problem.max_iter > 0    ? fmt::format("max_iter {}", problem.max_iter)
                           : problem.epsilon > 0.0 ? fmt::format("epsilon {}", problem.epsilon)
                                                   : fmt::format("exact, search {}", name(problem.search));
  const Traits& traits = setting.machine.traits;
  const bool on_gpu = setting.machine.is_gpu();
  const std::string device = on_gpu ? device_text(traits.device)
                                    : fmt::format("{} {}", traits.threads, traits.threads == 1 ? "thread" : "threads");
  fmt::print("rtopk {}, {}, {}\n", version(), setting.where,
             on_gpu ? fmt::format("sm_{}", traits.compute_capability) : std::string(build_info().cpu_target));
  fmt::print("{}, {}, {}, {}, {}; {}; {}; median of {}\n\n", name(problem.dtype), name(problem.direction), mode,
             name(problem.form), name(problem.order), name(options.random.distribution.value_or(Distribution::normal)),
             device, setting.repeats);
  fmt::print("{:>9} {:>7} {:>6} {:>11} {:>8} {:>8}{} {:>11}  {}\n", "rows", "cols", "k", "ms", "GB/s", "x floor",
             on_gpu ? "" : fmt::format(" {:>14}", "x nth_element"), "passes/row", "family");
}

void print_result(const BenchResult& result) {
  const Problem& problem = result.plan.problem;
  const bool scaled = result.nth_element_rows < problem.rows;
  const bool on_gpu = problem.device.kind == DeviceKind::cuda;
  fmt::print("{:>9} {:>7} {:>6} {:>11.4f} {:>8.2f} {:>8.2f}{} {:>11.2f}  {}\n", problem.rows, problem.cols, problem.k,
             result.seconds * 1e3, result.gb_per_s(), result.times_floor(),
             on_gpu ? "" : fmt::format(" {:>14}", fmt::format("{}{:.1f}", scaled ? "~" : "", result.speedup())),
             result.passes_per_row, name(result.plan.family));
  if (!result.violation.empty()) fmt::print("          WRONG: {}\n", result.violation);
  std::fflush(stdout);
}

void print_footer(const std::vector<BenchResult>& results, bool on_gpu) {
  double floor = 0.0;
  double speedup = 0.0;
  double worst = 0.0;
  bool scaled = false;
  std::int64_t checked = 0;
  for (const BenchResult& result : results) {
    floor += std::log(result.times_floor());
    worst = std::max(worst, result.times_floor());
    if (!on_gpu) speedup += std::log(result.speedup());
    scaled = scaled || result.nth_element_rows < result.plan.problem.rows;
    checked += result.rows_checked;
  }
  const auto count = static_cast<double>(results.size());
  fmt::print("\n");
  if (results.size() > 1) {
    fmt::print("geometric mean: {:.2f} x floor, {}\n", std::exp(floor / count),
               on_gpu ? fmt::format("worst {:.2f}", worst)
                      : fmt::format("{:.1f} x faster than nth_element", std::exp(speedup / count)));
  }
  if (on_gpu) {
    fmt::print(
        "x floor: time / time of a copy on the GPU that moves as many bytes: the matrix once, the results once. GB/s\n"
        "counts the same bytes. The L2 cache was cold. {} rows were checked against the reference on the CPU.\n",
        checked);
  } else {
    fmt::print(
        "x floor: time / time of a copy of the matrix; x nth_element: how many times as fast as std::nth_element;\n"
        "both with the same threads.{} {} rows were checked against the reference.\n",
        scaled ? " ~: timed on part of the rows and scaled." : "", checked);
  }
}

Json result_json(const BenchResult& result) {
  const Problem& problem = result.plan.problem;
  Json json = Json::object();
  json["rows"] = problem.rows;
  json["cols"] = problem.cols;
  json["k"] = problem.k;
  json["family"] = name(result.plan.family);
  const bool on_gpu = problem.device.kind == DeviceKind::cuda;
  if (!on_gpu) json["threads"] = result.plan.threads;
  json["ms"] = result.seconds * 1e3;
  json["samples_ms"] = Json::array();
  for (const double sample : result.samples_s) json["samples_ms"].push_back(sample * 1e3);
  json["gb_per_s"] = result.gb_per_s();
  json["floor_ms"] = result.floor_s * 1e3;
  json["times_floor"] = result.times_floor();
  if (!on_gpu) {
    json["nth_element_ms"] = result.nth_element_s * 1e3;
    json["nth_element_rows_timed"] = result.nth_element_rows;
    json["times_faster_than_nth_element"] = result.speedup();
  }
  json["passes_per_row"] = result.passes_per_row;
  json["rows_checked"] = result.rows_checked;
  json["correct"] = result.violation.empty();
  if (!result.violation.empty()) json["violation"] = result.violation;
  return json;
}

Json report_json(const BenchOptions& options, const Problem& problem, const BenchSetting& setting,
                 const std::vector<BenchResult>& results) {
  Json json = Json::object();
  json["command"] = command_line();
  json["version"] = version();
  json["date"] = date_utc();
  json["cpu"] = cpu_model();
  json["device"] = device_text(problem.device);
  if (setting.machine.is_gpu()) {
    json["gpu"] = setting.where;
    json["compute_capability"] = setting.machine.traits.compute_capability;
    json["multiprocessors"] = setting.machine.traits.multiprocessors;
  } else {
    json["cpu_target"] = build_info().cpu_target;
    json["threads"] = setting.machine.traits.threads;
  }
  json["repeats"] = setting.repeats;
  json["dtype"] = name(problem.dtype);
  json["direction"] = name(problem.direction);
  json["order"] = name(problem.order);
  json["form"] = name(problem.form);
  json["index_type"] = name(problem.index_type);
  json["max_iter"] = problem.max_iter;
  json["epsilon"] = problem.epsilon;
  json["search"] = name(problem.search);
  json["distribution"] = name(options.random.distribution.value_or(Distribution::normal));
  json["seed"] = options.random.seed;
  json["results"] = Json::array();
  for (const BenchResult& result : results) json["results"].push_back(result_json(result));
  return json;
}

int bench(const BenchOptions& options) {
  const BenchSetting setting = setting_of(options);
  const bool on_gpu = setting.machine.is_gpu();
  const RandomSpec random{.distribution = options.random.distribution.value_or(Distribution::normal),
                          .seed = options.random.seed,
                          .dtype = options.selection.dtype.value_or(DType::f32)};
  const std::unique_ptr<BenchRunner> runner =
      (on_gpu ? gpu_bench : cpu_bench)(random, setting.machine, setting.repeats);
  std::vector<Problem> problems;
  for (const BenchShape& shape : shapes_of(options, on_gpu)) {
    Problem problem{.rows = shape.rows,
                    .cols = shape.cols,
                    .k = shape.k,
                    .dtype = random.dtype,
                    .device = setting.machine.traits.device};
    apply(options.selection, problem);
    runner->require_valid(problem);  // all before the first is timed, so that a typing error does not cost results
    problems.push_back(problem);
  }
  std::optional<OutputFile> file;
  const bool json_to_stdout = options.json == "-";
  if (!options.json.empty() && !json_to_stdout) file.emplace(options.json);
  const bool table = !json_to_stdout && !options.quiet;

  TerminalLine line(!options.quiet);
  if (table) print_header(problems.front(), options, setting);
  std::fflush(stdout);
  std::vector<BenchResult> results;
  bool correct = true;
  for (const Problem& problem : problems) {
    line.show(fmt::format("bench {}/{}: {} rows of {}, k {}", results.size() + 1, problems.size(), problem.rows,
                          problem.cols, problem.k));
    results.push_back(runner->measure(problem));
    line.clear();
    correct = correct && results.back().violation.empty();
    if (table) print_result(results.back());
  }
  if (table) print_footer(results, on_gpu);
  if (!options.json.empty()) {
    const Json json = report_json(options, problems.front(), setting, results);
    const std::string text = json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
    if (file) {
      file->write_at(0, text);
      file->commit();
      if (table) fmt::print("wrote {}\n", printable(options.json));
    } else {
      fmt::print("{}", text);
    }
  }
  return correct ? 0 : exit_broken_contract;
}

}  // namespace

void add_bench_command(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Time selections beside a copy, and check their results");
  command->add_option("--shape", options->shapes, "A shape to time; may be given several times")
      ->type_name("ROWSxCOLSxK");
  std::string names;
  std::string about;
  for (const BenchGrid& grid : bench_grids()) {
    names += (names.empty() ? "" : "|") + grid.name;
    about += fmt::format("  {:<7} {}\n          CPU: {} ({} shapes); GPU: {} ({} shapes)\n", grid.name, grid.about,
                         grid.cpu_size, grid.cpu_shapes.size(), grid.gpu_size, grid.gpu_shapes.size());
  }
  command->add_option("--grid", options->grid, "A named set of shapes")->type_name(names);
  command
      ->add_option("--repeats", options->repeats,
                   "Samples per shape; their median is reported (default: 5 on the CPU, 25 on a GPU)")
      ->check(CLI::Range(1, 10000).description(""))
      ->type_name("N");
  command
      ->add_option("--json", options->json, "Also write the results as JSON to a file, or to the standard output (-)")
      ->type_name("FILE|-");
  add_selection_flags(*command, options->selection);
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
      "Examples:\n"
      "  rtopk bench --shape 65536x768x32 --shape 65536x768x64\n"
      "  rtopk bench --grid sweep --device cpu --threads 1 --json sweep.json\n"
      "  rtopk bench --grid paper --max-iter 4 --dtype bf16");
  command->callback([options, &chosen] { chosen = [options] { return bench(*options); }; });
}

}  // namespace rtopk::tool
