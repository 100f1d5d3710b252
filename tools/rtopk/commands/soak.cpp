// rtopk soak: random problems, one after the other, each checked row by row against the reference.
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <rtopk/rtopk.hpp>

#include "command_line/options.hpp"
#include "commands/commands.hpp"
#include "selection/checked_rows.hpp"
#include "selection/result_buffers.hpp"
#include "selection/saved.hpp"
#include "soak/guarded_memory.hpp"
#include "soak/layout.hpp"
#include "soak/problem.hpp"
#include "terminal/failure.hpp"
#include "terminal/line.hpp"
#include "terminal/text.hpp"

namespace rtopk::tool {
namespace {

struct SoakOptions {
  double seconds = 10.0;
  std::uint64_t seed = 0;
  std::int64_t problems = std::numeric_limits<std::int64_t>::max();
  std::optional<std::int64_t> only;  // run this problem alone
  MachineFlags machine;
  bool spoil = false;
  bool quiet = false;
};

/// What was tried, for the table at the end.
struct Tally {
  std::int64_t problems = 0;
  std::int64_t rows = 0;
  std::int64_t elements = 0;
  std::int64_t min_cols = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_cols = 0;

  void add(const Problem& problem) {
    ++problems;
    rows += problem.rows;
    elements += problem.rows * problem.cols;
    min_cols = std::min(min_cols, problem.cols);
    max_cols = std::max(max_cols, problem.cols);
  }
  void add(const Tally& other) {
    problems += other.problems;
    rows += other.rows;
    elements += other.elements;
    min_cols = std::min(min_cols, other.min_cols);
    max_cols = std::max(max_cols, other.max_cols);
  }
};

class Soak {
 public:
  explicit Soak(const SoakOptions& options)
      : machine_(resolve(options.machine)),
        threads_(options.machine.threads),
        spoil_(options.spoil),
        pool_(machine_.cpu_threads) {
    if (!machine_.is_gpu()) return;
    gpu::use(machine_.traits.device.ordinal);
    stream_.emplace();
  }

  /// Runs one problem. Returns one line that says what is wrong, or nothing.
  std::optional<std::string> try_problem(SoakProblem soak);

  [[nodiscard]] const std::map<std::string, Tally>& by_family() const noexcept { return by_family_; }
  [[nodiscard]] Device device() const noexcept { return machine_.traits.device; }

 private:
  void make_rows(const SoakProblem& soak);
  [[nodiscard]] std::optional<std::string> compare_with_reference(
      const SoakProblem& soak, const void* input, const std::vector<std::unique_ptr<GuardedMemory>>& found) const;

  Machine machine_;
  int threads_;
  bool spoil_;
  ThreadPool pool_;
  std::optional<gpu::Stream> stream_;
  std::vector<std::byte> tight_;  // the rows without gaps, as the reference reads them
  std::map<std::string, Tally> by_family_;
};

void Soak::make_rows(const SoakProblem& soak) {
  const Problem& problem = soak.problem;
  tight_.resize(static_cast<std::size_t>(problem.rows * problem.cols) * size_of(problem.dtype));
  const RowSpec spec{
      .dtype = problem.dtype, .cols = problem.cols, .k = problem.k, .kind = soak.rows, .seed = soak.seed};
  tool::make_rows(spec, 0, problem.rows, tight_.data(), pool_);
}

void point_to(Output& output, Part part, std::byte* data) {
  switch (part) {
    case Part::values: output.values = data; break;
    case Part::indices: output.indices = data; break;
    case Part::dense: output.dense = data; break;
    case Part::mask: output.mask = reinterpret_cast<std::uint8_t*>(data); break;
    case Part::passes: output.passes = reinterpret_cast<std::int32_t*>(data); break;
    case Part::thresholds: output.thresholds = data; break;
  }
}

/// General rows: byte by byte what the reference writes.
std::optional<std::string> Soak::compare_with_reference(
    const SoakProblem& soak, const void* input, const std::vector<std::unique_ptr<GuardedMemory>>& found) const {
  Problem problem = soak.problem;
  problem.device = {};
  Plan plan;
  require(make_plan(problem, Traits{.threads = machine_.cpu_threads}, Family::reference, plan));
  const ResultBuffers expected(problem, problem.rows);
  std::vector<std::byte> workspace(plan.workspace_bytes);
  RowArrays arrays;
  for (const RowArray& array : soak.arrays) arrays.*array.member = array.bytes.data();
  require(run(plan, input, expected.output(), {workspace.data(), workspace.size()}, {}, arrays));
  const std::vector<ArraySpec> specs = arrays_of(problem);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    // The contract fixes the number of passes of the paper's searches, not of the fast search.
    if (specs[i].part == Part::passes && problem.search != Search::bisection) continue;
    const std::span<const std::byte> wanted = expected.part(i, problem.rows);
    const std::span<const std::byte> there = found[i]->bytes();
    const auto differ = std::mismatch(wanted.begin(), wanted.end(), there.begin());
    if (differ.first == wanted.end()) continue;
    const auto item =
        static_cast<std::int64_t>(static_cast<std::size_t>(differ.first - wanted.begin()) / specs[i].item_bytes);
    return fmt::format("row {}: {} differ from the reference's at position {}", item / specs[i].items_per_row,
                       specs[i].name, item % specs[i].items_per_row);
  }
  return std::nullopt;
}

std::optional<std::string> Soak::try_problem(SoakProblem soak) {
  Problem& problem = soak.problem;
  problem.device = machine_.traits.device;
  Traits traits = machine_.traits;
  if (!machine_.is_gpu()) traits.threads = threads_ > 0 ? threads_ : soak.threads;
  Plan plan;
  if (const Status status = make_plan(problem, traits, plan); !status.ok()) {
    return fmt::format("it cannot be planned: {}", status.text());
  }
  gpu::Stream* const stream = stream_ ? &*stream_ : nullptr;
  make_rows(soak);

  const std::size_t size = size_of(problem.dtype);
  const auto elements = static_cast<std::size_t>(input_elements(problem));
  GuardedMemory input(elements * size, static_cast<std::size_t>(soak.input_offset) * size, stream);
  lay_out(problem, tight_, input.bytes());
  const std::vector<std::byte> before(input.bytes().begin(), input.bytes().end());
  input.upload();
  GuardedMemory workspace(plan.workspace_bytes, soak.workspace_offset, stream);
  workspace.upload();
  std::vector<std::unique_ptr<GuardedMemory>> arrays;
  Output output;
  Output on_host;
  for (const ArraySpec& spec : arrays_of(problem)) {
    const std::size_t bytes = static_cast<std::size_t>(problem.rows * spec.items_per_row) * spec.item_bytes;
    const std::size_t offset = static_cast<std::size_t>(soak.output_offset) * spec.item_bytes;
    arrays.push_back(std::make_unique<GuardedMemory>(bytes, offset, stream));
    arrays.back()->upload();
    point_to(output, spec.part, arrays.back()->on_device());
    point_to(on_host, spec.part, arrays.back()->bytes().data());
  }

  std::vector<std::unique_ptr<GuardedMemory>> of_rows;
  RowArrays row_arrays;
  for (const RowArray& array : soak.arrays) {
    const std::size_t offset = static_cast<std::size_t>(soak.output_offset) * size_of(array.type);
    of_rows.push_back(std::make_unique<GuardedMemory>(array.bytes.size(), offset, stream));
    std::copy(array.bytes.begin(), array.bytes.end(), of_rows.back()->bytes().begin());
    of_rows.back()->upload();
    row_arrays.*array.member = of_rows.back()->on_device();
  }

  const Status status = run(plan, input.on_device(), output, {workspace.on_device(), plan.workspace_bytes},
                            {.stream = stream == nullptr ? nullptr : stream->handle()}, row_arrays);
  if (!status.ok()) return fmt::format("{} cannot run it: {}", name(plan.family), status.text());
  input.download();
  workspace.download();
  bool intact = input.guards_are_intact() && workspace.guards_are_intact();
  for (const auto& array : arrays) {
    array->download();
    intact = intact && array->guards_are_intact();
  }
  if (!intact) return fmt::format("{} wrote outside of the memory that it was given", name(plan.family));
  if (!std::equal(before.begin(), before.end(), input.bytes().begin())) {
    return fmt::format("{} wrote to its input", name(plan.family));
  }
  if (spoil_) arrays.front()->bytes().back() ^= std::byte{0x40};

  if (is_general(problem)) {
    if (const auto wrong = compare_with_reference(soak, input.bytes().data(), arrays)) {
      return fmt::format("{}, {}", name(plan.family), *wrong);
    }
    by_family_[std::string(name(plan.family)) + ":general"].add(problem);
    return std::nullopt;
  }
  Problem judged = problem;
  judged.device = {};
  FirstViolation broken;
  check_rows(tight_.data(), 0, problem.rows,
             {on_host.values, on_host.indices, on_host.dense, on_host.mask, on_host.passes}, judged, pool_, broken);
  if (broken.get()) return fmt::format("{}, row {}: {}", name(plan.family), broken.get()->row, broken.get()->reason);
  by_family_[name(plan.family)].add(problem);
  return std::nullopt;
}

std::string tally_text(const std::string& name, const Tally& tally) {
  return fmt::format("{:<24} {:>9} {:>13} {:>15}  {} to {}", name, tally.problems, tally.rows, tally.elements,
                     tally.min_cols, tally.max_cols);
}

int soak(const SoakOptions& options) {
  Soak soaked(options);
  TerminalLine line(!options.quiet);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const std::string device = device_text(soaked.device());
  const std::int64_t first = options.only.value_or(0);
  const std::int64_t end = options.only ? first + 1 : options.problems;
  for (std::int64_t number = first; number < end && (number == first || elapsed() < options.seconds); ++number) {
    const SoakProblem problem = soak_problem(options.seed, number);
    if (line.due())
      line.show(fmt::format("soak {}: problem {}, {:.0f} s: {}", device, number, elapsed(), text(problem)));
    const std::optional<std::string> wrong = soaked.try_problem(problem);
    if (!wrong) continue;
    line.clear();
    fmt::print("BROKEN: problem {} ({}): {}\nrepeat: rtopk soak --seed {} --problem {} --device {}\n", number,
               text(problem), *wrong, options.seed, number, device);
    return exit_broken_contract;
  }
  line.clear();
  Tally all;
  if (!options.quiet)
    fmt::print("{:<24} {:>9} {:>13} {:>15}  {}\n", "family", "problems", "rows", "elements", "columns");
  for (const auto& [family, tally] : soaked.by_family()) {
    if (!options.quiet) fmt::print("{}\n", tally_text(family, tally));
    all.add(tally);
  }
  if (!options.quiet) fmt::print("{}\n", tally_text("all", all));
  fmt::print("OK: {} problems, {} rows on {} in {:.0f} s, seed {}: none wrong\n", all.problems, all.rows, device,
             elapsed(), options.seed);
  return 0;
}

}  // namespace

void add_soak_command(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<SoakOptions>();
  CLI::App* command = app.add_subcommand("soak", "Run random problems for some time and check every row of each");
  command->add_option("--seconds", options->seconds, "How many seconds to run (default 10)")
      ->check(CLI::Range(0.0, 1e9).description(""))
      ->type_name("N");
  add_seed_flag(*command, options->seed,
                "Seed of the problems; the same seed gives the same problems on every machine (default 0)");
  command->add_option("--problems", options->problems, "Stop after this many problems")
      ->check(CLI::Range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max()).description(""))
      ->type_name("N");
  command->add_option("--problem", options->only, "Run only problem N of the seed, to repeat a failure")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max() - 1).description(""))
      ->type_name("N");
  add_machine_flags(*command, options->machine);
  command->add_flag("--spoil", options->spoil,
                    "Flip a bit of every result before it is checked: the check must then fail");
  command->add_flag("-q,--quiet", options->quiet, "No progress and no table; one line at the end");
  command->footer(
      "A problem has random sizes (1 to 262144 columns, any k), types, form, order, early stopping, strides\n"
      "and alignment, and rows that are hard to select from: ties, NaN, infinities, heavy tails, any bits.\n"
      "Every row of every result is checked against a plain reference on the CPU. Writes outside of the\n"
      "given memory are detected, and so are reads between rows: the elements there would be selected.\n"
      "\n"
      "Exit codes: 0 no failure; 1 a failure, and the command that repeats it is printed; 2 bad arguments,\n"
      "or no such device.\n"
      "\n"
      "Examples:\n"
      "  rtopk soak --seconds 60\n"
      "  rtopk soak --seconds 3600 --seed 7 --device cuda\n"
      "  rtopk soak --seed 7 --problem 1234 --device cuda");
  command->callback([options, &chosen] { chosen = [options] { return soak(*options); }; });
}

}  // namespace rtopk::tool
