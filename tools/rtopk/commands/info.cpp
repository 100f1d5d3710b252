// rtopk info: version, backends, instruction sets, GPUs.
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
#include "system/cuda_device.hpp"
#include "system/machine.hpp"
#include "terminal/failure.hpp"
#include "terminal/text.hpp"
#include "terminal/words.hpp"

namespace rtopk::tool {
namespace {

struct InfoOptions {
  std::optional<Device> device;
  bool json = false;
};

struct Gpu {
  int ordinal = 0;
  Traits traits;
  gpu::Info about;
};

/// The library does not count GPUs, so this asks for one after the other until there are no more.
std::vector<Gpu> find_gpus(std::optional<Device> asked, std::string& why_none) {
  constexpr int max_gpus = 64;
  std::vector<Gpu> gpus;
  if (asked && asked->kind == DeviceKind::cpu) {
    why_none = "--device is cpu";
    return gpus;
  }
  const int first = asked ? asked->ordinal : 0;
  for (int ordinal = first; ordinal < (asked ? first + 1 : max_gpus); ++ordinal) {
    Gpu found{.ordinal = ordinal, .traits = {}, .about = {}};
    const Status status = query_traits({.kind = DeviceKind::cuda, .ordinal = ordinal}, found.traits);
    if (asked) require(status);
    if (!status.ok()) {
      if (ordinal == 0) why_none = status.text();
      break;
    }
    found.about = gpu::info(ordinal);
    gpus.push_back(found);
  }
  return gpus;
}

int info(const InfoOptions& options) {
  const BuildInfo build = build_info();
  Traits cpu;
  require(query_traits({}, cpu));
  std::string why_no_gpu;
  const std::vector<Gpu> gpus = find_gpus(options.device, why_no_gpu);
  const std::vector<std::string_view> targets = words_of(build.cpu_targets);

  // The device that resolve() picks without --device.
  const Device device{.kind = gpus.empty() ? DeviceKind::cpu : DeviceKind::cuda,
                      .ordinal = gpus.empty() ? 0 : gpus.front().ordinal};

  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    json["version"] = version();
    json["backends"] = build.cuda ? std::vector<std::string>{"cpu", "cuda"} : std::vector<std::string>{"cpu"};
    json["device"] = device_text(device);
    json["highway"] = build.highway;
    json["cpu"] = {
        {"model", cpu_model()}, {"threads", cpu.threads}, {"target", build.cpu_target}, {"targets", targets}};
    json["gpus"] = nlohmann::ordered_json::array();
    for (const Gpu& gpu : gpus) {
      json["gpus"].push_back({{"ordinal", gpu.ordinal},
                              {"name", gpu.about.name},
                              {"memory_bytes", gpu.about.memory_bytes},
                              {"l2_bytes", gpu.about.l2_bytes},
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
    fmt::print("{:<11}{}, {}, sm_{}, {} multiprocessors, {} bytes of shared memory per block\n",
               fmt::format("gpu {}", gpu.ordinal), gpu.about.name,
               bytes_text(static_cast<double>(gpu.about.memory_bytes)), gpu.traits.compute_capability,
               gpu.traits.multiprocessors, gpu.traits.shared_bytes_per_block);
  }
  if (!options.device) fmt::print("default    --device {}\n", device_text(device));
  return 0;
}

}  // namespace

void add_info_command(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* command = app.add_subcommand("info", "Show the version, the backends, the SIMD targets and the GPUs");
  command->add_flag("--json", options->json, "Print JSON");
  add_device_flag(*command, options->device,
                  "Show only this GPU, or none (cpu); it is an error if there is no such GPU");
  command->callback([options, &chosen] { chosen = [options] { return info(*options); }; });
}

}  // namespace rtopk::tool
