// rtopk verify: checks a saved selection, or what a device selects, against its input by the contract.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <rtopk/rtopk.hpp>

#include "command_line/options.hpp"
#include "commands/commands.hpp"
#include "files/mapped_file.hpp"
#include "matrix/source.hpp"
#include "selection/checked_rows.hpp"
#include "selection/chunked.hpp"
#include "selection/contract.hpp"
#include "selection/saved.hpp"
#include "terminal/failure.hpp"
#include "terminal/line.hpp"
#include "terminal/text.hpp"

namespace rtopk::tool {
namespace {

struct VerifyOptions {
  std::vector<std::string> files;
  SelectionFlags selection;
  MachineFlags machine;
  RandomFlags random;
  std::int64_t chunk_rows = 0;
  bool quiet = false;
};

constexpr std::uint64_t chunk_bytes = std::uint64_t{32} << 20;  // of input, for all threads together

NpzArrays read_npz(const MappedFile& file, const std::string& path) {
  try {
    return parse_saved(file.bytes());
  } catch (const NpyError& error) {
    fail("cannot read '{}': {}", path, error.what());
  }
}

/// The files to verify.
struct Files {
  std::string input;  ///< Empty if the input is random.
  std::string saved;  ///< Empty: verify what the device selects.
};

/// Whether the file is a matrix (.npy), not a saved selection.
bool is_matrix(const std::string& path) {
  const MappedFile file(path);
  constexpr std::string_view magic = "\x93NUMPY";
  const std::span<const std::byte> bytes = file.bytes();
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

Files files_of(const VerifyOptions& options) {
  const std::vector<std::string>& files = options.files;
  if (files.size() > 2) fail("one input and one saved selection are needed, {} files are given", files.size());
  if (files.size() == 2) return {.input = files.front(), .saved = files.back()};
  const bool saved = files.size() == 1 && !is_matrix(files.front());
  if (saved) return {.input = "", .saved = files.back()};
  const std::string input = files.empty() ? "" : files.front();
  if (input.empty() && options.random.shape.empty()) {
    fail("a saved selection is needed: rtopk verify INPUT.npy OUT.npz; or an input and -k, to verify what is selected");
  }
  if (!options.selection.k) {
    fail("a saved selection is needed after {}, or -k to verify what is selected from it",
         input.empty() ? "--random " + options.random.shape : "'" + input + "'");
  }
  return {.input = input, .saved = ""};
}

std::unique_ptr<MatrixSource> open_input(const VerifyOptions& options, const Files& files,
                                         const std::optional<Meta>& meta, ThreadPool& pool) {
  std::optional<DType> dtype = options.selection.dtype;
  if (!dtype && meta) dtype = meta->problem.dtype;
  std::optional<RandomInput> random = options.random.input();
  if (!files.input.empty()) {
    if (random) fail("both a file and --random are given; one of them is the input");
    return open_matrix(files.input, dtype, pool);
  }
  if (!random && meta) random = meta->provenance.random;
  if (!random && meta) {
    fail("'{}' was made from a file ('{}'): give that file first", files.saved, meta->provenance.file);
  }
  if (!random) fail("an input is needed: FILE.npy before '{}', or --random ROWSxCOLS", files.saved);
  return random_matrix(
      {.distribution = random->distribution, .seed = random->seed, .dtype = dtype.value_or(DType::f32)}, random->rows,
      random->cols, pool);
}

std::optional<Violation> first_violation_saved(MatrixSource& source, const Problem& problem, const Results& results,
                                               ThreadPool& pool, const VerifyOptions& options) {
  RowProgress progress("verify", problem.rows, static_cast<double>(source.row_bytes()), !options.quiet);
  const auto good_rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(chunk_bytes / source.row_bytes()));
  const std::int64_t chunk_rows = std::min(options.chunk_rows > 0 ? options.chunk_rows : good_rows, problem.rows);
  FirstViolation first_broken;
  for (std::int64_t first = 0; first < problem.rows && !first_broken.get(); first += chunk_rows) {
    const std::int64_t rows = std::min(chunk_rows, problem.rows - first);
    check_rows(source.rows_at(first, rows), first, rows, results.after(problem, first), problem, pool, first_broken);
    progress.update(first + rows);
  }
  return first_broken.get();
}

/// Selects on the device and checks the results. `problem` has no device, since the reference runs on the CPU.
std::optional<Violation> first_violation_selected(MatrixSource& source, const Problem& problem, const Traits& traits,
                                                  ThreadPool& pool, const VerifyOptions& options) {
  RowProgress progress("verify", problem.rows, static_cast<double>(source.row_bytes()), !options.quiet);
  Problem on_device = problem;
  on_device.device = traits.device;
  FirstViolation first_broken;
  const auto take = [&](const SelectedChunk& chunk) {
    check_rows(chunk.input, chunk.first, chunk.rows, chunk.results->results(), problem, pool, first_broken);
    progress.update(chunk.first + chunk.rows);
    return !first_broken.get();
  };
  select_in_chunks(source, on_device, traits, options.chunk_rows, take);
  return first_broken.get();
}

int print_broken(const Violation& broken, const std::string& who) {
  fmt::print("BROKEN: row {}: {}{}\n", broken.row, who, broken.reason);
  return exit_broken_contract;
}

int verify(const VerifyOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Files files = files_of(options);
  const auto about_saved = [&](auto&& use) {  // adds the file's name to errors
    try {
      return use();
    } catch (const Failure& failure) {
      if (files.saved.empty()) throw;
      fail("cannot use '{}': {}", files.saved, failure.what());
    }
  };
  std::optional<MappedFile> file;
  NpzArrays arrays;
  std::optional<Meta> meta;
  if (!files.saved.empty()) {
    file.emplace(files.saved);
    arrays = read_npz(*file, files.saved);
    meta = about_saved([&] { return read_meta(arrays); });
  }
  // A saved selection needs no device. With --device, what that device selects is verified too.
  const bool select = files.saved.empty() || options.machine.device.has_value();
  MachineFlags flags = options.machine;
  if (!select) flags.device = Device{};  // leaves the GPU alone
  const Machine machine = resolve(flags);
  ThreadPool reading(machine.cpu_threads);   // reads the next chunk
  ThreadPool checking(machine.cpu_threads);  // while this one checks, if the device is a GPU
  const std::unique_ptr<MatrixSource> source = open_input(options, files, meta, reading);
  Problem problem = about_saved([&] {
    if (meta) return meta->problem;
    if (!files.saved.empty()) return guess_problem(arrays, source->rows(), source->cols(), source->dtype());
    return Problem{.rows = source->rows(), .cols = source->cols()};
  });
  if (problem.rows != source->rows() || problem.cols != source->cols()) {
    fail("'{}' is a selection from a {}x{} matrix, the input is {}x{}", files.saved, problem.rows, problem.cols,
         source->rows(), source->cols());
  }
  problem.dtype = source->dtype();
  problem.device = {};
  apply(options.selection, problem);
  const Results results = about_saved([&] {
    Plan plan;
    require(make_plan(problem, Traits{}, Family::reference, plan));
    return files.saved.empty() ? Results{} : find_results(arrays, problem, source->leading_shape());
  });

  const auto require_unchanged = [&] {  // no verdict about a file that changed while it was read
    source->require_unchanged();
    if (file) file->require_unchanged();
  };
  if (!files.saved.empty()) {
    const auto broken = first_violation_saved(*source, problem, results, checking, options);
    require_unchanged();
    if (broken) return print_broken(*broken, "");
  }
  if (select) {
    const auto broken = first_violation_selected(*source, problem, machine.traits, checking, options);
    require_unchanged();
    if (broken) return print_broken(*broken, device_text(machine.traits.device) + " selects wrongly: ");
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (!options.quiet) {
    fmt::print("OK: {} rows, the {} {} of {} each, keep the contract ({}, {}{}, {})\n", problem.rows, problem.k,
               name(problem.direction), problem.cols, name(problem.form), name(problem.order),
               select ? ", " + std::string(files.saved.empty() ? "" : "saved and ") + "selected on " +
                            device_text(machine.traits.device)
                      : "",
               seconds_text(elapsed.count()));
  }
  return 0;
}

}  // namespace

void add_verify_command(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand("verify", "Check that a selection keeps the contract");
  command
      ->add_option(
          "FILES", options->files,
          "INPUT.npy and OUT.npz. OUT.npz alone, if `rtopk select --random` wrote it. INPUT.npy alone, with -k, to "
          "check what the device selects from it")
      ->type_name("");
  add_k_flag(*command, options->selection);
  add_selection_flags(*command, options->selection);
  add_random_flags(*command, options->random);
  add_machine_flags(*command, options->machine);
  add_chunk_flag(*command, options->chunk_rows);
  command->add_flag("-q,--quiet", options->quiet, "No progress; a line only if the contract is broken");
  command->footer(
      "Exit codes: 0 the selection keeps the contract; 1 it does not, and the first wrong row and the\n"
      "reason are printed; 2 the files cannot be used.\n"
      "\n"
      "A file from `rtopk select` records how it was made. For another file (arrays `values` and `indices`\n"
      "saved with numpy.savez), k and the types are taken from its arrays and the rest from options.\n"
      "Options override what a file records.\n"
      "\n"
      "Results are compared with a plain reference on the CPU, not with the code that made them. Without a\n"
      "saved selection (-k, and a file or --random), what the device selects is checked. With a saved\n"
      "selection and --device, both are checked.\n"
      "\n"
      "Examples:\n"
      "  rtopk verify scores.npy top.npz\n"
      "  rtopk verify scores.npy from_numpy.npz --smallest --sorted\n"
      "  rtopk verify --random 65536x768 --seed 7 top.npz\n"
      "  rtopk verify --random 65536x768 -k 32 --dtype bf16 --device cuda");
  command->callback([options, &chosen] { chosen = [options] { return verify(*options); }; });
}

}  // namespace rtopk::tool
