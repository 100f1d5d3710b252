// The flags that several commands share, and how they become a Problem.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <rtopk/select.hpp>

#include "random_matrix.hpp"

namespace CLI {
class App;  // its header takes seconds to compile, and most of those who include this one need no more of it
}

namespace rtopk::tool {

/// Every option of a selection. What is not given stays empty, so that it can come from elsewhere (a saved file).
struct SelectionFlags {
  std::optional<std::int64_t> k;
  std::optional<DType> dtype;
  bool smallest = false;
  bool sorted = false;
  std::optional<Order> order;
  std::optional<Form> form;
  std::optional<IndexType> index_type;
  bool no_values = false;
  bool no_indices = false;
  bool passes = false;
  std::optional<std::int32_t> max_iter;
  std::optional<double> epsilon;
  std::optional<Search> search;
};

/// The flags as given.
struct MachineFlags {
  std::optional<Device> device;
  int threads = 0;  ///< 0: as many as the library would use.
};

/// The flags as given; `shape` empty: no random matrix is wanted.
struct RandomFlags {
  std::string shape;
  std::optional<Distribution> distribution;
  std::uint64_t seed = 0;

  [[nodiscard]] std::optional<RandomInput> input() const;  ///< Throws Failure if the shape cannot be read.
};

void add_selection_flags(CLI::App& app, SelectionFlags& flags);
void add_k_flag(CLI::App& app, SelectionFlags& flags);
void add_machine_flags(CLI::App& app, MachineFlags& flags);
void add_device_flag(CLI::App& app, std::optional<Device>& device, const std::string& help);
/// How many rows go through the program at a time; 0: as it sees fit.
void add_chunk_flag(CLI::App& app, std::int64_t& chunk_rows);
void add_random_flags(CLI::App& app, RandomFlags& flags);
void add_distribution_flags(CLI::App& app, RandomFlags& flags);
void add_seed_flag(CLI::App& app, std::uint64_t& seed, const std::string& help);

/// Puts what was given into `problem`. Rows and columns must be there already: the CBSR selector depends on them.
void apply(const SelectionFlags& flags, Problem& problem);

/// Where to run.
struct Machine {
  Traits traits;        ///< Of the device.
  int cpu_threads = 1;  ///< For what the CPU does, whatever the device is: reading, making inputs, checking.

  [[nodiscard]] bool is_gpu() const noexcept { return traits.device.kind == DeviceKind::cuda; }
};

/// The device that was asked for, or the first GPU, or the CPU if there is none. Throws Failure if the device that was
/// asked for is not there.
[[nodiscard]] Machine resolve(const MachineFlags& flags);

[[nodiscard]] std::string device_text(Device device);  ///< "cpu", "cuda:0"

/// What main runs once the command line has been read; returns the exit code.
using Action = std::function<int()>;

void add_select_command(CLI::App& app, Action& chosen);
void add_verify_command(CLI::App& app, Action& chosen);
void add_bench_command(CLI::App& app, Action& chosen);
void add_plan_command(CLI::App& app, Action& chosen);
void add_info_command(CLI::App& app, Action& chosen);
void add_study_command(CLI::App& app, Action& chosen);
void add_soak_command(CLI::App& app, Action& chosen);

}  // namespace rtopk::tool
