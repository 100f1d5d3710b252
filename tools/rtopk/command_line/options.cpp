#include "command_line/options.hpp"

#include <charconv>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "selection/names.hpp"
#include "terminal/failure.hpp"
#include "terminal/text.hpp"

namespace rtopk::tool {
namespace {

template <typename T>
CLI::Option* add_choice(CLI::App& app, const std::string& flag, std::optional<T>& target, const std::string& help) {
  const auto read = [&target, flag](const std::string& text) {
    target = value_named<T>(text);
    if (!target) throw CLI::ValidationError(flag, fmt::format("'{}' is none of {}", text, names_of<T>(", ")));
  };
  return app.add_option_function<std::string>(flag, read, help)->type_name(names_of<T>("|"));
}

std::optional<Device> device_from(const std::string& text) {
  if (text == "cpu") return Device{};
  if (text == "cuda") return Device{.kind = DeviceKind::cuda, .ordinal = 0};
  const std::string prefix = "cuda:";
  if (!text.starts_with(prefix)) return std::nullopt;
  Device device{.kind = DeviceKind::cuda, .ordinal = 0};
  const char* const begin = text.data() + prefix.size();
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, device.ordinal);
  if (error != std::errc{} || stop != end || device.ordinal < 0) return std::nullopt;
  return device;
}

}  // namespace

void add_k_flag(CLI::App& app, SelectionFlags& flags) {
  app.add_option("-k", flags.k, "How many elements to select from each row: 1 to its length")
      ->type_name("K")
      ->group("Selection");
}

void add_selection_flags(CLI::App& app, SelectionFlags& flags) {
  const auto grouped = [](CLI::Option* option) { return option->group("Selection"); };
  grouped(add_choice(app, "--dtype", flags.dtype,
                     "Element type (default: the file's; f32 for random input). bf16 has to be given, since NumPy "
                     "stores it as uint16"));
  grouped(app.add_flag("--smallest", flags.smallest,
                       "Select the k smallest instead of the k largest (NaN is greater than any number)"));
  CLI::Option* sorted = grouped(app.add_flag("--sorted", flags.sorted, "Best first; the same as --order by_value"));
  grouped(add_choice(app, "--order", flags.order, "Order of the k results within a row (default unsorted)"))
      ->excludes(sorted);
  grouped(add_choice(
      app, "--form", flags.form,
      "pairs: k values and indices (default); dense: the row, with zeros for what is not selected; mask: one byte "
      "per element, 1 if it is selected; cbsr: k values and column selectors of 1 or 2 bytes"));
  grouped(add_choice(app, "--index-type", flags.index_type,
                     "i32 or i64 for pairs (default i64), u8 or u16 for cbsr (default: the smallest that fits)"));
  grouped(app.add_flag("--no-values", flags.no_values, "Leave out the values of pairs"));
  grouped(app.add_flag("--no-indices", flags.no_indices, "Leave out the indices of pairs"));
  grouped(app.add_flag("--passes", flags.passes, "Also return the number of passes of each row's search"));
  CLI::Option* max_iter =
      grouped(app.add_option("--max-iter", flags.max_iter, "Stop early after this many bisection passes (0: exact)")
                  ->type_name("N"));
  grouped(add_choice(app, "--rule", flags.rule,
                     "What --max-iter selects. threshold_first: as the paper's kernel does, what reaches the last "
                     "threshold before what only reaches the lower bound (default); printed: the paper's Algorithm 2 "
                     "as printed, the first k elements that reach the lower bound"));
  grouped(app.add_option("--epsilon", flags.epsilon, "Stop early at this relative precision, 0 to 1 (0: exact)")
              ->type_name("E"))
      ->excludes(max_iter);
  grouped(add_choice(
      app, "--search", flags.search,
      "How thresholds are found. fast: as fast as the library can (default); bisection: pass by pass, as in the "
      "paper, with the same results"));
}

void add_row_flags(CLI::App& app, RowFlags& flags) {
  const auto add = [&app](const char* flag, std::string& file, const char* help) {
    return app.add_option(flag, file, help)->type_name("FILE.npy")->group("Rows");
  };
  CLI::Option* lengths =
      add("--lengths", flags.lengths, "How many elements each row has; what comes behind them is not selected");
  CLI::Option* starts = add("--starts", flags.starts, "The column in which each row begins");
  add("--offsets", flags.offsets,
      "The input is flat, and row i is its elements from number i of this file to number i + 1. Indices are then "
      "places "
      "in the input")
      ->excludes(lengths)
      ->excludes(starts);
  add("--row-k", flags.row_k, "How many elements to select from each row, at most -k");
  add("--ids", flags.ids, "An id beside every element of the input: results have these instead of indices");
  app.add_flag("--magnitude", flags.magnitude, "Compare absolute values; results keep their signs")->group("Rows");
  app.add_option("--thresholds", flags.thresholds,
                 "Also write the last selected value of each row, in the order by value, to a .npy file")
      ->type_name("OUT.npy")
      ->group("Rows");
}

void add_device_flag(CLI::App& app, std::optional<Device>& device, const std::string& help) {
  const auto read = [&device](const std::string& text) {
    device = device_from(text);
    if (!device) throw CLI::ValidationError("--device", fmt::format("'{}' is none of cpu, cuda, cuda:N", text));
  };
  app.add_option_function<std::string>("--device", read, help)->type_name("cpu|cuda|cuda:N")->group("Machine");
}

void add_family_flag(CLI::App& app, std::optional<Family>& family) {
  add_choice(app, "--family", family, "The kernel family, whatever it costs (default: the fastest for the shape)")
      ->type_name("NAME")
      ->group("Selection");
}

Status plan_for(const Problem& problem, const Traits& traits, std::optional<Family> family, Plan& plan) {
  return family ? make_plan(problem, traits, *family, plan) : make_plan(problem, traits, plan);
}

void add_chunk_flag(CLI::App& app, std::int64_t& chunk_rows) {
  app.add_option("--chunk-rows", chunk_rows,
                 "How many rows to read, select from and write at a time (default: 32 MiB of rows on the CPU; on a GPU "
                 "64 MiB, or less if its memory is small)")
      ->check(CLI::Range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max()).description(""))
      ->type_name("N")
      ->group("Machine");
}

void add_machine_flags(CLI::App& app, MachineFlags& flags) {
  add_device_flag(
      app, flags.device,
      "Where to run; N is the number of a GPU, and cuda is cuda:0 (default: cuda:0 if there is a GPU, else cpu)");
  app.add_option("--threads", flags.threads, "CPU threads (default: one for each CPU that this process may use)")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N")
      ->group("Machine");
}

void add_distribution_flags(CLI::App& app, RandomFlags& flags) {
  add_choice(app, "--dist", flags.distribution,
             "Distribution of its elements (default normal). student: Student's t, heavy tails; quantized: normal, "
             "rounded to sixteenths; ties: whole numbers from -8 to 7")
      ->group("Random input");
  add_seed_flag(app, flags.seed,
                "Seed of the random elements; the same seed gives the same matrix on every machine (default 0)");
  app.get_option("--seed")->group("Random input");
}

void add_seed_flag(CLI::App& app, std::uint64_t& seed, const std::string& help) {
  // Parsed here, because CLI11 turns -1 and numbers of more than 64 bits into the greatest seed.
  const auto read_seed = [&seed](const std::string& text) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, seed);
    if (error != std::errc{} || stop != end) {
      throw CLI::ValidationError("--seed", fmt::format("'{}' is no whole number from 0 to {}", text,
                                                       std::numeric_limits<std::uint64_t>::max()));
    }
  };
  app.add_option_function<std::string>("--seed", read_seed, help)->type_name("S");
}

void add_random_flags(CLI::App& app, RandomFlags& flags) {
  CLI::Option* shape = app.add_option("--random", flags.shape, "Use a random matrix instead of a file")
                           ->type_name("ROWSxCOLS")
                           ->group("Random input");
  add_distribution_flags(app, flags);
  app.get_option("--dist")->needs(shape);
  app.get_option("--seed")->needs(shape);
}

std::optional<RandomInput> RandomFlags::input() const {
  if (shape.empty()) return std::nullopt;
  std::vector<std::int64_t> extents;
  if (!parse_extents(shape, 2, extents)) fail("--random '{}' is not a shape such as 4096x768", shape);
  return RandomInput{.rows = extents[0],
                     .cols = extents[1],
                     .distribution = distribution.value_or(Distribution::normal),
                     .seed = seed};
}

void apply(const SelectionFlags& flags, Problem& problem) {
  if (flags.k) problem.k = *flags.k;
  if (flags.smallest) problem.direction = Direction::smallest;
  if (flags.sorted) problem.order = Order::by_value;
  if (flags.order) problem.order = *flags.order;
  if (flags.form && *flags.form != problem.form) {
    problem.form = *flags.form;
    problem.index_type = problem.form == Form::cbsr ? selector_type(problem.cols) : IndexType::i64;
  }
  if (flags.index_type) problem.index_type = *flags.index_type;
  if (flags.no_values) problem.values = false;
  if (flags.no_indices) problem.indices = false;
  if (flags.passes) problem.passes = true;
  if (flags.max_iter) problem.max_iter = *flags.max_iter;
  if (flags.rule) {
    // Not by CLI11's needs(): `verify` may have max_iter from a saved file.
    if (!flags.max_iter && problem.max_iter == 0) fail("--rule requires --max-iter");
    problem.rule = *flags.rule;
  }
  if (flags.epsilon) problem.epsilon = *flags.epsilon;
  if (flags.search) problem.search = *flags.search;
}

Machine resolve(const MachineFlags& flags) {
  Machine machine;
  require(query_traits({}, machine.traits));
  if (flags.threads > 0) machine.traits.threads = flags.threads;
  machine.cpu_threads = machine.traits.threads;
  if (flags.device && flags.device->kind == DeviceKind::cpu) return machine;
  Traits gpu;
  const Status status = query_traits(flags.device.value_or(Device{.kind = DeviceKind::cuda, .ordinal = 0}), gpu);
  if (flags.device) require(status);
  if (status.ok()) machine.traits = gpu;
  return machine;
}

std::string device_text(Device device) {
  return device.kind == DeviceKind::cpu ? name(device.kind) : fmt::format("{}:{}", name(device.kind), device.ordinal);
}

}  // namespace rtopk::tool
