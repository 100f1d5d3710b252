// The options that several commands share, and how they become a Problem.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <rtopk/select.hpp>

#include "matrix/random.hpp"
#include "selection/row_files.hpp"

namespace CLI {
class App;  // declared, not included: CLI11's header takes seconds to compile
}

namespace rtopk::tool {

/// The options of a selection. Those that were not given stay empty and may come from a saved file instead.
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
  std::optional<Rule> rule;
  std::optional<double> epsilon;
  std::optional<Search> search;
};

/// The options as given.
struct MachineFlags {
  std::optional<Device> device;
  int threads = 0;  ///< 0: the library's default.
};

/// The options as given. `shape` is empty if the input is not random.
struct RandomFlags {
  std::string shape;
  std::optional<Distribution> distribution;
  std::uint64_t seed = 0;

  [[nodiscard]] std::optional<RandomInput> input() const;  ///< Throws Failure if the shape cannot be read.
};

void add_selection_flags(CLI::App& app, SelectionFlags& flags);
void add_k_flag(CLI::App& app, SelectionFlags& flags);
void add_row_flags(CLI::App& app, RowFlags& flags);
void add_machine_flags(CLI::App& app, MachineFlags& flags);
void add_device_flag(CLI::App& app, std::optional<Device>& device, const std::string& help);
void add_family_flag(CLI::App& app, std::optional<Family>& family);
/// Rows in a chunk; 0 is the default.
void add_chunk_flag(CLI::App& app, std::int64_t& chunk_rows);
void add_random_flags(CLI::App& app, RandomFlags& flags);
void add_distribution_flags(CLI::App& app, RandomFlags& flags);
void add_seed_flag(CLI::App& app, std::uint64_t& seed, const std::string& help);

/// Puts the given options into `problem`, whose rows and columns must be set: the CBSR selector depends on them.
/// Throws Failure if there is a rule of early stopping, but no max_iter.
void apply(const SelectionFlags& flags, Problem& problem);

/// make_plan with the family that was asked for, or with the one that it picks.
[[nodiscard]] Status plan_for(const Problem& problem, const Traits& traits, std::optional<Family> family, Plan& plan);

/// Where to run.
struct Machine {
  Traits traits;        ///< The device.
  int cpu_threads = 1;  ///< For work of the CPU on any device: reading, making inputs, checking.

  [[nodiscard]] bool is_gpu() const noexcept { return traits.device.kind == DeviceKind::cuda; }
};

/// The device that was asked for; otherwise the first GPU, or the CPU if there is none. Throws Failure if the device
/// that was asked for does not exist.
[[nodiscard]] Machine resolve(const MachineFlags& flags);

[[nodiscard]] std::string device_text(Device device);  ///< "cpu", "cuda:0"

}  // namespace rtopk::tool
