// rtopk study: recomputes the paper's tables about its search and compares them with the published numbers.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <rtopk/rtopk.hpp>

#include "command_line/options.hpp"
#include "commands/commands.hpp"
#include "files/output_file.hpp"
#include "study/report.hpp"
#include "system/machine.hpp"
#include "terminal/failure.hpp"
#include "terminal/text.hpp"

namespace rtopk::tool {
namespace {

struct StudyOptions {
  std::vector<std::string> parts;
  std::int64_t rows = 0;
  std::string json;
  MachineFlags machine;
  RandomFlags random;
  bool quiet = false;
};

std::vector<const StudyPart*> chosen_parts(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const StudyPart& part : study_parts()) known.emplace_back(part.name);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail("PART '{}' is none of {}", name, fmt::join(known, ", "));
    }
  }
  std::vector<const StudyPart*> chosen;
  for (const StudyPart& part : study_parts()) {
    if (names.empty() || std::find(names.begin(), names.end(), part.name) != names.end()) chosen.push_back(&part);
  }
  return chosen;
}

Json header_json(const StudySetting& setting) {
  const Machine& machine = setting.machine;
  Json json = Json::object();
  json["command"] = command_line();
  json["version"] = version();
  json["date"] = date_utc();
  json["cpu"] = cpu_model();
  json["threads"] = machine.cpu_threads;
  json["device"] = device_text(machine.traits.device);
  if (machine.is_gpu()) json["gpu"] = gpu::info(machine.traits.device.ordinal).name;
  json["dtype"] = name(setting.random.dtype);
  json["distribution"] = name(setting.random.distribution);
  json["seed"] = setting.random.seed;
  json["confidence"] = 0.95;
  return json;
}

int study(const StudyOptions& options) {
  const std::vector<const StudyPart*> parts = chosen_parts(options.parts);
  const Machine machine = resolve(options.machine);
  ThreadPool pool(machine.cpu_threads);
  const bool json_to_stdout = options.json == "-";
  const bool print = !json_to_stdout && !options.quiet;
  const StudySetting setting{.machine = machine,
                             .random = {.distribution = options.random.distribution.value_or(Distribution::normal),
                                        .seed = options.random.seed,
                                        .dtype = DType::f32},
                             .rows = options.rows,
                             .pool = &pool,
                             .progress = !options.quiet};
  std::optional<OutputFile> file;
  if (!options.json.empty() && !json_to_stdout) file.emplace(options.json);

  Json json = header_json(setting);
  json["parts"] = Json::array();
  for (const StudyPart* part : parts) {
    const auto start = std::chrono::steady_clock::now();
    StudyReport report = part->run(setting);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (print) {
      fmt::print("{}{}{}: {}\n", part == parts.front() ? "" : "\n\n", report.text, part->name,
                 seconds_text(elapsed.count()));
      std::fflush(stdout);
    }
    report.json["seconds"] = elapsed.count();
    json["parts"].push_back(std::move(report.json));
  }
  if (options.json.empty()) return 0;
  const std::string text = json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
  if (file) {
    file->write_at(0, text);
    file->commit();
    if (print) fmt::print("wrote {}\n", printable(options.json));
  } else {
    fmt::print("{}", text);
  }
  return 0;
}

}  // namespace

void add_study_command(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<StudyOptions>();
  CLI::App* command = app.add_subcommand("study", "Recompute the RTop-K paper's tables, beside the published numbers");
  std::string about;
  for (const StudyPart& part : study_parts()) about += fmt::format("  {:<8} {}\n", part.name, part.about);
  command->add_option("PART", options->parts, "The tables to compute, from the list below (default: all)")
      ->type_name("");
  command->add_option("--rows", options->rows, "Random rows for each number (default: as many as the paper uses)")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 40).description(""))
      ->type_name("N");
  command
      ->add_option("--json", options->json, "Also write the results as JSON to a file, or to the standard output (-)")
      ->type_name("FILE|-");
  add_distribution_flags(*command, options->random);
  add_machine_flags(*command, options->machine);
  command->add_flag("-q,--quiet", options->quiet, "No progress and no tables");
  command->footer(
      "Parts (M columns, as the paper calls them):\n" + about +
      "\n"
      "Every number is a mean over random rows with a 95 % confidence interval (low and high in the JSON).\n"
      "Beside it are the paper's number and the difference, with a star if chance and rounding do not\n"
      "explain it. All numbers of a part use the same rows. The same seed gives the same rows and, for the\n"
      "paper's algorithms, the same numbers on every machine and device. The paper has numbers for normal\n"
      "elements only, so with another --dist there is no comparison; passes always uses all distributions.\n"
      "\n"
      "The algorithms are computed as the paper's text defines them. Notes below a table name published\n"
      "numbers that do not follow from that:\n"
      "  table1   The published averages are not the means of the published columns. The caption has\n"
      "           epsilon = 1e-4, but Algorithm 1 has 1e-4 times the maximum.\n"
      "  table2   E2 as defined divides by a number that can be near zero (for k = 128 it has no mean).\n"
      "           The published numbers are close to the error divided by the row's maximum, so both are\n"
      "           computed. The published hit rates stay below those of Algorithm 2 as printed. A loop\n"
      "           that ends at exactly k elements without raising min has them: see the second table.\n"
      "           The third table has the selection of the paper's kernel, which is further from them.\n"
      "\n"
      "X. Xie, Y. Luo, H. Peng, C. Ding. RTop-K: Ultra-Fast Row-Wise Top-K Selection for Neural Network\n"
      "Acceleration on GPUs. ICLR 2025.\n"
      "\n"
      "Examples:\n"
      "  rtopk study                                    everything\n"
      "  rtopk study table2 --rows 1000000 --seed 7     one table, with more rows\n"
      "  rtopk study table1 --dist lognormal            the same statistics for other elements\n"
      "  rtopk study --device cuda --json study.json    on a GPU, with JSON");
  command->callback([options, &chosen] { chosen = [options] { return study(*options); }; });
}

}  // namespace rtopk::tool
