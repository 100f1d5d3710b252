// rtopk verify: checks a saved selection against its input by the contract.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include <rtopk/rtopk.hpp>

#include "contract.hpp"
#include "crc32.hpp"
#include "failure.hpp"
#include "mapped_file.hpp"
#include "matrix_source.hpp"
#include "options.hpp"
#include "saved_selection.hpp"
#include "terminal_line.hpp"
#include "text.hpp"

namespace rtopk::tool {
namespace {

struct VerifyOptions {
  std::vector<std::string> files;
  SelectionFlags selection;
  MachineFlags machine;
  RandomFlags random;
  bool quiet = false;
};

constexpr std::uint64_t chunk_bytes = std::uint64_t{32} << 20;  // of input, shared by the threads
constexpr std::int64_t blocks_per_thread = 8;

NpzArrays read_npz(const MappedFile& file, const std::string& path) {
  try {
    return parse_npz(file.bytes());
  } catch (const NpyError& error) {
    fail("cannot read '{}': {}", path, error.what());
  }
}

void check_sums(const NpzArrays& arrays, const std::string& path) {
  for (const auto& [array_name, array] : arrays) {
    if (crc32(0, array.entry) != array.crc) fail("'{}' is damaged: the checksum of '{}' is wrong", path, array_name);
  }
}

std::unique_ptr<MatrixSource> open_input(const VerifyOptions& options, const std::optional<Meta>& meta,
                                         const std::string& saved, ThreadPool& pool) {
  std::optional<DType> dtype = options.selection.dtype;
  if (!dtype && meta) dtype = meta->problem.dtype;
  std::optional<RandomInput> random = options.random.input();
  if (options.files.size() == 2) {
    if (random) fail("both a file and --random are given; one of them is the input");
    return open_matrix(options.files.front(), dtype);
  }
  if (!random && meta) random = meta->provenance.random;
  if (!random && meta) {
    fail("'{}' was made from a file ('{}'): give that file first", saved, meta->provenance.file);
  }
  if (!random) fail("an input is needed: FILE.npy before '{}', or --random ROWSxCOLS", saved);
  return random_matrix(
      {.distribution = random->distribution, .seed = random->seed, .dtype = dtype.value_or(DType::f32)}, random->rows,
      random->cols, pool);
}

/// The first violation among rows that several threads check, blocks being handed out in ascending order.
class FirstViolation {
 public:
  void report(Violation violation) {
    const std::lock_guard lock(mutex_);
    if (!first_ || violation.row < first_->row) first_ = std::move(violation);
    row_ = first_->row;
  }
  [[nodiscard]] bool is_before(std::int64_t row) const noexcept { return row_.load() < row; }
  [[nodiscard]] const std::optional<Violation>& get() const noexcept { return first_; }

 private:
  std::mutex mutex_;
  std::optional<Violation> first_;
  std::atomic<std::int64_t> row_{INT64_MAX};
};

std::optional<Violation> first_violation(MatrixSource& source, const Problem& problem, const Results& results,
                                         ThreadPool& pool, bool quiet) {
  RowProgress progress("verify", problem.rows, static_cast<double>(source.row_bytes()), !quiet);
  const auto chunk_rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(chunk_bytes / source.row_bytes()));
  FirstViolation first_broken;
  for (std::int64_t first = 0; first < problem.rows && !first_broken.get(); first += chunk_rows) {
    const std::int64_t rows = std::min(chunk_rows, problem.rows - first);
    const auto* input = static_cast<const std::byte*>(source.rows_at(first, rows));
    const std::int64_t blocks = std::min<std::int64_t>(rows, pool.threads() * blocks_per_thread);
    const std::int64_t block_rows = (rows + blocks - 1) / blocks;
    pool.run(blocks, [&](std::int64_t block) {
      const std::int64_t begin = block * block_rows;
      const std::int64_t count = std::min(block_rows, rows - begin);
      if (count <= 0 || first_broken.is_before(first + begin)) return;
      ContractChecker checker(problem);
      auto violation = checker.check(input + static_cast<std::uint64_t>(begin) * source.row_bytes(), count,
                                     results.after(problem, first + begin));
      if (!violation) return;
      violation->row += first + begin;
      first_broken.report(std::move(*violation));
    });
    progress.update(first + rows);
  }
  return first_broken.get();
}

int verify(const VerifyOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.files.size() > 2) {
    fail("one input and one saved selection are needed, {} files are given", options.files.size());
  }
  if (options.files.empty()) fail("a saved selection is needed: rtopk verify INPUT.npy OUT.npz");
  const std::string& saved = options.files.back();
  const MappedFile file(saved);
  const NpzArrays arrays = read_npz(file, saved);
  check_sums(arrays, saved);
  const auto about_saved = [&](auto&& use) {  // names the file that the message is about
    try {
      return use();
    } catch (const Failure& failure) {
      fail("cannot use '{}': {}", saved, failure.what());
    }
  };
  const std::optional<Meta> meta = about_saved([&] { return read_meta(arrays); });
  ThreadPool pool(resolve(options.machine).threads);
  const std::unique_ptr<MatrixSource> source = open_input(options, meta, saved, pool);
  Problem problem = about_saved(
      [&] { return meta ? meta->problem : guess_problem(arrays, source->rows(), source->cols(), source->dtype()); });
  if (problem.rows != source->rows() || problem.cols != source->cols()) {
    fail("'{}' is a selection from a {}x{} matrix, the input is {}x{}", saved, problem.rows, problem.cols,
         source->rows(), source->cols());
  }
  problem.dtype = source->dtype();
  problem.device = {};
  apply(options.selection, problem);
  const Results results = about_saved([&] {
    Plan plan;
    require(make_reference_plan(problem, plan));
    return find_results(arrays, problem, source->leading_shape());
  });

  const std::optional<Violation> broken = first_violation(*source, problem, results, pool, options.quiet);
  if (broken) {
    fmt::print("BROKEN: row {}: {}\n", broken->row, broken->reason);
    return exit_broken_contract;
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (!options.quiet) {
    fmt::print("OK: {} rows, the {} {} of {} each, keep the contract ({}, {}, {})\n", problem.rows, problem.k,
               name(problem.direction), problem.cols, name(problem.form), name(problem.order),
               seconds_text(elapsed.count()));
  }
  return 0;
}

}  // namespace

void add_verify_command(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand("verify", "Check a saved selection against its input, by the contract");
  command
      ->add_option("FILES", options->files,
                   "INPUT.npy and OUT.npz; OUT.npz alone if the input was random and `rtopk select` saved it")
      ->type_name("");
  add_k_flag(*command, options->selection);
  add_selection_flags(*command, options->selection);
  add_random_flags(*command, options->random);
  add_machine_flags(*command, options->machine);
  command->add_flag("-q,--quiet", options->quiet, "No progress; a line only if the contract is broken");
  command->footer(
      "Exit code: 0 the selection keeps the contract; 1 it breaks it, and the first such row and the\n"
      "reason are named; 2 the files cannot be used. A file from `rtopk select` says itself how it was\n"
      "made. For one from elsewhere (arrays `values` and `indices` saved with numpy.savez), k and the\n"
      "types come from its arrays and the rest from flags. Flags take the place of what a file says.\n"
      "\n"
      "Examples:\n"
      "  rtopk verify scores.npy top.npz\n"
      "  rtopk verify scores.npy from_numpy.npz --smallest --sorted\n"
      "  rtopk verify --random 65536x768 --seed 7 top.npz");
  command->callback([options, &chosen] { chosen = [options] { return verify(*options); }; });
}

}  // namespace rtopk::tool
