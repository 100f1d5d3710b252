// Timing on a GPU by its own clock (events), with a cold L2 cache, beside a copy that moves the same bytes.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include <rtopk/rtopk.hpp>

#include "bench/case.hpp"
#include "bench/sectors.hpp"
#include "selection/result_buffers.hpp"
#include "system/cuda_device.hpp"
#include "terminal/failure.hpp"

namespace rtopk::tool {
namespace {

// Runs alternate between several matrices, so that none finds its input in a cache. Of small matrices there are more.
constexpr std::size_t min_inputs = 2;
constexpr std::size_t max_inputs = 8;
constexpr std::size_t bytes_of_inputs = std::size_t{1} << 30;  // with larger matrices there are min_inputs

constexpr std::int64_t elements_per_piece = std::int64_t{1} << 24;  // the CPU makes and copies so many at a time

// Overwritten before each timed run, which evicts everything else from the L2 cache.
constexpr std::size_t flush_bytes = std::size_t{256} << 20;
constexpr std::size_t flush_times_l2 = 4;

constexpr double warm_up_s = 0.05;  // an idle GPU takes some milliseconds to raise its clock

constexpr std::int64_t min_rows_to_check = 32;
constexpr std::int64_t max_rows_to_check = 1024;
constexpr std::int64_t elements_to_check = std::int64_t{1} << 21;  // sorting them takes one CPU about a second

/// With the gaps behind them.
std::size_t bytes_of_rows(const Problem& problem, std::int64_t rows) {
  return static_cast<std::size_t>(rows * stride_of(problem)) * size_of(problem.dtype);
}

std::int64_t rows_per_piece(const BenchCase& bench) {
  return std::clamp<std::int64_t>(elements_per_piece / stride_of(bench.problem), 1, bench.distinct_rows);
}

/// The fewest bytes that a selection can move: every sector with an element of the matrix, and the results.
std::size_t bytes_to_move(const BenchCase& bench) {
  const Problem& problem = bench.problem;
  const auto size = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t sectors = touched_sectors({.rows = problem.rows,
                                                .row_bytes = problem.cols * size,
                                                .stride = stride_of(problem) * size,
                                                .offset = bench.input_offset * size});
  return static_cast<std::size_t>(sectors * sector_bytes) +
         static_cast<std::size_t>(problem.rows) * result_bytes_per_row(problem);
}

class GpuBench final : public BenchRunner {
 public:
  /// On the GPU that the calling thread uses.
  explicit GpuBench(const BenchSetting& setting)
      : BenchRunner(setting),
        flush_bytes_(std::max(flush_bytes, flush_times_l2 * gpu::info(setting.machine.traits.device.ordinal).l2_bytes)),
        flush_(gpu::device_bytes(flush_bytes_)) {}

  [[nodiscard]] BenchResult measure(const BenchCase& bench) override;

 private:
  void prepare_inputs(const BenchCase& bench);
  void write_matrix(const BenchCase& bench, std::int64_t first, std::byte* piece, std::byte* first_row);
  template <typename Work>
  double seconds_of(Work&& work);
  double passes_per_row(Problem problem, const void* input, const ResultBuffers& results);

  std::size_t flush_bytes_ = 0;
  OwnedBytes flush_;
  std::optional<BenchCase> prepared_;
  std::vector<OwnedBytes> inputs_;
  gpu::Event begin_;
  gpu::Event end_;
  gpu::Stream stream_;  // declared last, so destroyed first: it waits for work that uses the memory above
};

/// Keeps the inputs of the case before, which often differs in k alone.
void GpuBench::prepare_inputs(const BenchCase& bench) {
  if (prepared_ && same_input(*prepared_, bench)) return;
  inputs_.clear();    // freed before new ones are allocated, so that large shapes fit
  prepared_.reset();  // in case an allocation below throws
  const Problem& problem = bench.problem;
  const std::size_t bytes = memory_bytes(bench);
  const std::size_t wanted = std::clamp(bytes_of_inputs / bytes, min_inputs, max_inputs);
  // The GPU also holds the results and a copy of as many bytes.
  const std::size_t others = bytes + 2 * static_cast<std::size_t>(problem.rows) * result_bytes_per_row(problem);
  const std::size_t free = gpu::free_memory();
  const std::size_t fit = free > others ? (free - others) / bytes : 0;
  const std::size_t count = std::clamp<std::size_t>(fit, 1, wanted);
  const std::size_t offset = static_cast<std::size_t>(bench.input_offset) * size_of(problem.dtype);
  const std::size_t piece_bytes = bytes_of_rows(problem, rows_per_piece(bench));
  const OwnedBytes piece = gpu::pinned_bytes(piece_bytes);
  std::memset(piece.get(), 0, piece_bytes);  // between the rows
  for (std::size_t i = 0; i < count; ++i) {
    inputs_.push_back(gpu::device_bytes(bytes));
    write_matrix(bench, static_cast<std::int64_t>(i) * problem.rows, piece.get(), inputs_.back().get() + offset);
  }
  prepared_ = bench;
}

/// Writes rows from `first` on, a piece at a time; where rows repeat, the GPU doubles them until there are enough.
void GpuBench::write_matrix(const BenchCase& bench, std::int64_t first, std::byte* piece, std::byte* first_row) {
  const Problem& problem = bench.problem;
  const std::int64_t distinct = bench.distinct_rows;
  for (std::int64_t done = 0, some = 0; done < distinct; done += some) {
    some = std::min(rows_per_piece(bench), distinct - done);
    write_rows(bench, first + done, some, piece, pool_);
    stream_.copy(first_row + bytes_of_rows(problem, done), piece, bytes_of_rows(problem, some));
    stream_.wait();
  }
  for (std::int64_t done = distinct; done < problem.rows; done *= 2) {
    const std::int64_t some = std::min(done, problem.rows - done);
    stream_.copy(first_row + bytes_of_rows(problem, done), first_row, bytes_of_rows(problem, some));
  }
  stream_.wait();
}

/// While the GPU overwrites the cache, the CPU queues the work, so the events time the GPU alone.
template <typename Work>
double GpuBench::seconds_of(Work&& work) {
  stream_.fill(flush_.get(), 0, flush_bytes_);
  begin_.record(stream_);
  work();
  end_.record(stream_);
  end_.wait();
  return end_.seconds_since(begin_);
}

/// In a separate run, since counting passes costs a little time.
double GpuBench::passes_per_row(Problem problem, const void* input, const ResultBuffers& results) {
  problem.passes = true;
  const Plan plan = plan_of(problem);
  const OwnedBytes workspace = gpu::device_bytes(plan.workspace_bytes);
  std::vector<std::int32_t> passes(static_cast<std::size_t>(problem.rows));
  const std::size_t bytes = passes.size() * sizeof(std::int32_t);
  const OwnedBytes on_device = gpu::device_bytes(bytes);
  Output output = results.output();
  output.passes = reinterpret_cast<std::int32_t*>(on_device.get());
  require(run(plan, input, output, {workspace.get(), plan.workspace_bytes}, {.stream = stream_.handle()}));
  stream_.copy(passes.data(), on_device.get(), bytes);
  stream_.wait();
  double sum = 0.0;
  for (const std::int32_t n : passes) sum += n;
  return sum / static_cast<double>(problem.rows);
}

BenchResult GpuBench::measure(const BenchCase& bench) {
  const Problem& problem = bench.problem;
  prepare_inputs(bench);
  const std::size_t bytes = bytes_to_move(bench);
  BenchResult result;
  result.timed = bench;
  result.bytes = static_cast<double>(bytes);
  result.plan = plan_of(problem);
  const OwnedBytes workspace = gpu::device_bytes(result.plan.workspace_bytes);
  const ResultBuffers results(problem, problem.rows, gpu::device_bytes);
  const std::size_t copied = std::max<std::size_t>(bytes / 2, 1);  // a copy reads and writes every byte
  const OwnedBytes copy_from = gpu::device_bytes(copied);
  const OwnedBytes copy_to = gpu::device_bytes(copied);
  stream_.fill(copy_from.get(), 1, copied);
  // No result has these bytes, so the check finds elements that a run did not write.
  for (std::size_t array = 0; array < results.arrays(); ++array) {
    const std::span<std::byte> all = results.part(array, problem.rows);
    stream_.fill(all.data(), 0xff, all.size());
  }

  std::size_t runs = 0;
  const std::size_t offset = static_cast<std::size_t>(bench.input_offset) * size_of(problem.dtype);
  const std::byte* input = nullptr;  // of the last run
  const auto run_once = [&] {
    require(run(result.plan, input, results.output(), {workspace.get(), result.plan.workspace_bytes},
                {.stream = stream_.handle()}));
  };
  const auto time_run = [&] {
    input = inputs_[runs++ % inputs_.size()].get() + offset;
    return seconds_of(run_once);
  };
  const auto time_copy = [&] { return seconds_of([&] { stream_.copy(copy_to.get(), copy_from.get(), copied); }); };

  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  do {
    time_run();
    time_copy();
  } while (std::chrono::duration<double>(Clock::now() - start).count() < warm_up_s);
  std::vector<double> floors;
  for (int repeat = 0; repeat < setting_.repeats; ++repeat) {  // alternating, so that a slow moment hits both
    result.samples_s.push_back(time_run());
    floors.push_back(time_copy());
  }
  result.seconds = median(result.samples_s);
  result.floor_s = median(floors);
  const std::int64_t to_check = std::clamp(elements_to_check / problem.cols, min_rows_to_check, max_rows_to_check);
  const auto copy = [this](void* to, const void* from, std::size_t count) {
    stream_.copy(to, from, count);
    stream_.wait();
  };
  check_some_rows(to_check, input, results, copy, result);
  result.passes_per_row = passes_per_row(problem, input, results);
  return result;
}

}  // namespace

std::unique_ptr<BenchRunner> gpu_bench(const BenchSetting& setting) {
  gpu::use(setting.machine.traits.device.ordinal);
  return std::make_unique<GpuBench>(setting);
}

}  // namespace rtopk::tool
