// rtopk select: selects from a file or a random matrix, chunk by chunk, into a .npz file.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <rtopk/rtopk.hpp>

#include "command_line/options.hpp"
#include "commands/commands.hpp"
#include "files/npy.hpp"
#include "files/npz_writer.hpp"
#include "files/output_file.hpp"
#include "matrix/source.hpp"
#include "selection/chunked.hpp"
#include "selection/elements.hpp"
#include "selection/result_buffers.hpp"
#include "selection/row_files.hpp"
#include "selection/saved.hpp"
#include "system/cuda_device.hpp"
#include "terminal/failure.hpp"
#include "terminal/line.hpp"
#include "terminal/text.hpp"

namespace rtopk::tool {
namespace {

struct SelectOptions {
  std::string input;
  std::string output;
  SelectionFlags selection;
  MachineFlags machine;
  RandomFlags random;
  RowFlags rows;
  std::int64_t chunk_rows = 0;
  bool quiet = false;
};

constexpr std::int64_t preview_rows = 4;
constexpr std::int64_t preview_elements = 8;

/// The file that is being written: the arrays that the user asked for, and meta.
class SelectionFile {
 public:
  SelectionFile(const std::string& path, const MatrixSource& source, const Problem& problem,
                const std::vector<std::int64_t>& leading_shape, const Provenance& provenance)
      : file_(path, source.identity()), writer_(file_) {
    for (const ArraySpec& spec : arrays_of(problem)) {
      numbers_.push_back(writer_.add(spec.name, spec.descr, spec.item_bytes, spec.shape(leading_shape)));
    }
    const std::string meta = meta_text(problem, provenance);
    const std::size_t meta_number = writer_.add(meta_name, fmt::format("<U{}", meta.size()), 4 * meta.size(), {});
    writer_.begin();
    std::string wide;
    for (const char c : meta) wide.append({c, '\0', '\0', '\0'});
    writer_.write(meta_number, std::as_bytes(std::span<const char>(wide)));
  }

  /// The buffers may have more arrays than the file, at the end: the passes, for the summary, and the thresholds.
  void write(const ResultBuffers& buffers, std::int64_t rows) {
    for (std::size_t i = 0; i < numbers_.size(); ++i) writer_.write(numbers_[i], buffers.part(i, rows));
  }

  void commit() {
    writer_.finish();
    file_.commit();
  }

  [[nodiscard]] std::uint64_t bytes() const noexcept { return writer_.file_bytes(); }

 private:
  OutputFile file_;
  NpzWriter writer_;
  std::vector<std::size_t> numbers_;
};

/// The file of --thresholds that is being written.
class ThresholdsFile {
 public:
  ThresholdsFile(const std::string& path, const MatrixSource& source, const ArraySpec& spec,
                 const std::vector<std::int64_t>& leading_shape)
      : file_(path, source.identity()) {
    const std::string header = format_npy_header(spec.descr, spec.shape(leading_shape));
    file_.write_at(0, header);
    written_ = header.size();
  }
  void write(std::span<const std::byte> thresholds) {
    file_.write_at(written_, thresholds);
    written_ += thresholds.size();
  }
  void commit() { file_.commit(); }

 private:
  OutputFile file_;
  std::uint64_t written_ = 0;
};

/// Prints the first results of the first rows, for a selection that is not saved.
std::string preview(const Problem& problem, const Output& output, std::int64_t rows) {
  const bool wide = problem.form == Form::dense || problem.form == Form::mask;
  const std::int64_t items = wide ? problem.cols : problem.k;
  std::string text;
  for (std::int64_t row = 0; row < std::min(rows, preview_rows); ++row) {
    text += fmt::format("row {}:", row);
    for (std::int64_t i = 0; i < std::min(items, preview_elements); ++i) {
      const std::int64_t at = row * items + i;
      text += ' ';
      if (problem.form == Form::mask) {
        text += fmt::format("{}", output.mask[at]);
      } else if (problem.form == Form::dense) {
        text += element_text(problem.dtype, output.dense, at);
      } else {
        if (output.values != nullptr) text += element_text(problem.dtype, output.values, at);
        if (output.indices != nullptr) text += fmt::format("[{}]", index_at(problem.index_type, output.indices, at));
      }
    }
    text += items > preview_elements ? " ...\n" : "\n";
  }
  return text;
}

struct Timing {
  double select_s = 0.0;
  double total_s = 0.0;
  double passes = 0.0;  // sum over all rows
};

void print_summary(const SelectOptions& options, const Problem& problem, const Plan& plan, const Timing& timing,
                   std::uint64_t file_bytes) {
  const double rows = static_cast<double>(problem.rows);
  const bool is_flat = problem.ragged.offsets != ArrayType::none;
  const double elements =
      is_flat ? static_cast<double>(problem.ragged.elements) : rows * static_cast<double>(problem.cols);
  const double bytes = elements * static_cast<double>(size_of(problem.dtype));
  const std::string mode = problem.max_iter > 0
                               ? fmt::format(", max_iter {} ({})", problem.max_iter, name(problem.rule))
                           : problem.epsilon > 0.0 ? fmt::format(", epsilon {}", problem.epsilon)
                                                   : std::string(", exact");
  const std::string where =
      problem.device.kind == DeviceKind::cuda
          ? fmt::format("{}, {}", device_text(problem.device), gpu::info(problem.device.ordinal).name)
          : fmt::format("cpu on {} {}", plan.threads, plan.threads == 1 ? "thread" : "threads");
  fmt::print("{} {} {}of {}{} in each of {} {}, {}{} ({}, {})\n", problem.k, name(problem.direction),
             problem.magnitude ? "by magnitude " : "", problem.ragged == Ragged{} ? "" : "up to ", problem.cols,
             problem.rows, is_flat ? "segments" : "rows", name(problem.dtype), mode, name(plan.family), where);
  fmt::print("select {}  {:.2f} GB/s  {:.2f} passes per row  total {}\n", seconds_text(timing.select_s),
             timing.select_s > 0.0 ? bytes / timing.select_s * 1e-9 : 0.0, rows > 0.0 ? timing.passes / rows : 0.0,
             seconds_text(timing.total_s));
  if (!options.output.empty()) {
    fmt::print("wrote {}  {}\n", printable(options.output), bytes_text(static_cast<double>(file_bytes)));
  }
  if (!options.rows.thresholds.empty()) fmt::print("wrote {}\n", printable(options.rows.thresholds));
}

Provenance provenance_of(const SelectOptions& options) {
  const std::optional<RandomInput> random = options.random.input();
  if (random && !options.input.empty()) fail("both a file and --random are given; one of them is the input");
  if (!random && options.input.empty()) fail("an input is needed: FILE.npy or --random ROWSxCOLS");
  return {.file = options.input, .random = random};
}

int select(const SelectOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const Clock::time_point start = Clock::now();
  if (!options.selection.k) fail("-k is needed: how many elements of each row");
  if (!options.output.empty() && options.output == options.rows.thresholds) {
    fail("--thresholds and --output are both '{}'; accepted: two files", options.output);
  }
  RowFiles row_files(options.rows);
  const Machine machine = resolve(options.machine);
  const Traits& traits = machine.traits;
  const Provenance provenance = provenance_of(options);
  ThreadPool pool(provenance.random || machine.is_gpu() ? machine.cpu_threads : 1);
  const std::unique_ptr<MatrixSource> source =
      provenance.random ? random_matrix({.distribution = provenance.random->distribution,
                                         .seed = provenance.random->seed,
                                         .dtype = options.selection.dtype.value_or(DType::f32)},
                                        provenance.random->rows, provenance.random->cols, pool)
                        : open_matrix(provenance.file, options.selection.dtype, pool);

  Problem asked{.rows = source->rows(), .cols = source->cols(), .dtype = source->dtype(), .device = traits.device};
  apply(options.selection, asked);
  row_files.describe(asked);
  const std::vector<std::int64_t> leading_shape =
      row_files.is_flat() ? std::vector<std::int64_t>{asked.rows} : source->leading_shape();
  Problem problem = asked;
  problem.passes = true;     // for the summary, even if they are not saved
  asked.thresholds = false;  // these have a file of their own
  Plan plan;
  require(make_plan(problem, traits, plan));  // throws for a bad problem before any file is created

  std::optional<SelectionFile> file;
  if (!options.output.empty()) file.emplace(options.output, *source, asked, leading_shape, provenance);
  std::optional<ThresholdsFile> thresholds;
  const std::vector<ArraySpec> results = arrays_of(problem);
  if (problem.thresholds) thresholds.emplace(options.rows.thresholds, *source, results.back(), leading_shape);
  RowProgress progress("select", problem.rows, static_cast<double>(source->row_bytes()), !options.quiet);
  Timing timing;
  std::string first_rows;
  const auto take = [&](const SelectedChunk& chunk) {
    const ResultBuffers& buffers = *chunk.results;
    for (std::int64_t i = 0; i < chunk.rows; ++i) timing.passes += buffers.output().passes[i];
    if (file) file->write(buffers, chunk.rows);
    if (thresholds) thresholds->write(buffers.part(results.size() - 1, chunk.rows));
    if (chunk.first == 0 && !file) first_rows = preview(asked, buffers.output(), chunk.rows);
    progress.update(chunk.first + chunk.rows);
    return true;
  };
  const ChunkedRun done = select_in_chunks(*source, problem, traits, options.chunk_rows, take, &row_files);
  timing.select_s = done.select_s;
  source->require_unchanged();
  row_files.require_unchanged();
  if (file) file->commit();
  if (thresholds) thresholds->commit();
  progress.clear();
  timing.total_s = seconds_since(start);
  if (!options.quiet) {
    fmt::print("{}", first_rows);
    print_summary(options, problem, done.plan, timing, file ? file->bytes() : 0);
  }
  return 0;
}

}  // namespace

void add_select_command(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<SelectOptions>();
  CLI::App* command = app.add_subcommand("select", "Select from a matrix and save the results");
  command
      ->add_option(
          "FILE", options->input,
          "A .npy file: float32, float16, float64, int32, or bfloat16 bits in uint16; C order, little-endian. The "
          "last dimension is a row")
      ->type_name("");
  command
      ->add_option("-o,--output", options->output,
                   "Write the results to a .npz file for numpy.load. Without it, print those of the first rows")
      ->type_name("OUT.npz");
  add_k_flag(*command, options->selection);
  add_selection_flags(*command, options->selection);
  add_row_flags(*command, options->rows);
  add_random_flags(*command, options->random);
  add_machine_flags(*command, options->machine);
  add_chunk_flag(*command, options->chunk_rows);
  command->add_flag("-q,--quiet", options->quiet, "No progress and no summary");
  command->footer(
      "OUT.npz has the arrays `values` and `indices` (pairs), `dense`, `mask`, or `values` and `selectors`\n"
      "(cbsr); with --passes also `passes`; and `meta`, a JSON text that records for `rtopk verify` how the\n"
      "file was made. The file appears whole or not at all. NumPy has no bfloat16: its bits are read from\n"
      "uint16 (or 2-byte void) elements with --dtype bf16, and written as uint16.\n"
      "\n"
      "The input may be larger than the memory of the GPU or of the computer, because it is processed in\n"
      "chunks. On a GPU, one chunk is read while others are copied, selected from and written. In the\n"
      "summary, `select` is the time of the selection alone and `total` the time of everything.\n"
      "\n"
      "Rows: the files of --lengths, --starts, --offsets, --row-k and --ids have int32 or int64 numbers.\n"
      "Numbers out of range count as the nearest in range. A row with fewer than k elements has fewer\n"
      "results; behind them, indices are -1 and values those that lose against every other: -infinity,\n"
      "with --smallest NaN, with --magnitude 0 or NaN. `rtopk verify` does not check such files.\n"
      "\n"
      "Examples:\n"
      "  rtopk select scores.npy -k 32 -o top.npz\n"
      "  rtopk select scores.npy -k 10 --sorted --index-type i32 -o top.npz\n"
      "  rtopk select features.npy -k 64 --form cbsr --max-iter 8 -o features.npz\n"
      "  rtopk select --random 65536x768 --dist lognormal --seed 7 -k 32\n"
      "  rtopk select scores.npy -k 32 --device cuda:1 -o top.npz\n"
      "  rtopk select padded.npy -k 32 --lengths lengths.npy -o top.npz\n"
      "  rtopk select flat.npy -k 8 --offsets offsets.npy --sorted -o best_of_segments.npz\n"
      "  rtopk select gradients.npy -k 64 --magnitude --thresholds kth.npy -o sparse.npz\n"
      "\n"
      "  >>> top = numpy.load('top.npz'); top['values'], top['indices']");
  command->callback([options, &chosen] { chosen = [options] { return select(*options); }; });
}

}  // namespace rtopk::tool
