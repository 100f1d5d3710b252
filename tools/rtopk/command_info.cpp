// rtopk info: version, backends, instruction sets, GPUs.
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <rtopk/rtopk.hpp>

#include "failure.hpp"
#include "machine.hpp"
#include "options.hpp"

namespace rtopk::tool {
namespace {

struct Gpu {
  int ordinal = 0;
  Traits traits;
};

/// The library has no count of GPUs: it is asked for one after the other, until it has no more.
std::vector<Gpu> find_gpus(std::string& why_none) {
  constexpr int most = 64;
  std::vector<Gpu> gpus;
  for (int ordinal = 0; ordinal < most; ++ordinal) {
    Gpu gpu{.ordinal = ordinal, .traits = {}};
    const Status status = query_traits({.kind = DeviceKind::cuda, .ordinal = ordinal}, gpu.traits);
    if (!status.ok()) {
      if (ordinal == 0) why_none = status.text();
      break;
    }
    gpus.push_back(gpu);
  }
  return gpus;
}

int info(bool as_json) {
  const BuildInfo build = build_info();
  Traits cpu;
  require(query_traits({}, cpu));
  std::string why_no_gpu;
  const std::vector<Gpu> gpus = find_gpus(why_no_gpu);
  std::vector<std::string> targets;
  std::istringstream words(build.cpu_targets);
  for (std::string word; words >> word;) targets.push_back(word);

  if (as_json) {
    nlohmann::ordered_json json;
    json["version"] = version();
    json["backends"] = build.cuda ? std::vector<std::string>{"cpu", "cuda"} : std::vector<std::string>{"cpu"};
    json["highway"] = build.highway;
    json["cpu"] = {
        {"model", cpu_model()}, {"threads", cpu.threads}, {"target", build.cpu_target}, {"targets", targets}};
    json["gpus"] = nlohmann::ordered_json::array();
    for (const Gpu& gpu : gpus) {
      json["gpus"].push_back({{"ordinal", gpu.ordinal},
                              {"compute_capability", gpu.traits.compute_capability},
                              {"multiprocessors", gpu.traits.multiprocessors},
                              {"shared_bytes_per_block", gpu.traits.shared_bytes_per_block}});
    }
    fmt::print("{}\n", json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
    return 0;
  }

  fmt::print("rtopk      {}\n", version());
  fmt::print("backends   {}\n", build.cuda ? "cpu, cuda" : "cpu");
  fmt::print("cpu        {}, {} {}\n", cpu_model(), cpu.threads, cpu.threads == 1 ? "thread" : "threads");
  fmt::print("simd       {}{}\n", build.cpu_target,
             build.highway ? fmt::format(" (of {})", fmt::join(targets, ", "))
                           : std::string(" (built without Highway: correct but slow)"));
  if (gpus.empty()) fmt::print("gpu        none ({})\n", why_no_gpu);
  for (const Gpu& gpu : gpus) {
    fmt::print("gpu {}      sm_{}, {} multiprocessors, {} bytes of shared memory per block\n", gpu.ordinal,
               gpu.traits.compute_capability, gpu.traits.multiprocessors, gpu.traits.shared_bytes_per_block);
  }
  return 0;
}

}  // namespace

void add_info_command(CLI::App& app, Action& chosen) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("info", "Show the version, the backends, the SIMD targets and the GPUs");
  command->add_flag("--json", *as_json, "As JSON");
  command->callback([as_json, &chosen] { chosen = [as_json] { return info(*as_json); }; });
}

}  // namespace rtopk::tool
