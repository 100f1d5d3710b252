// Timing on a GPU by its own clock (events), with a cold L2 cache, beside a copy that moves the same bytes.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>

#include <fmt/format.h>

#include <rtopk/rtopk.hpp>

#include "bench/case.hpp"
#include "matrix/source.hpp"
#include "selection/contract.hpp"
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

// Rows to check: evenly spread, the first and the last among them.
constexpr std::int64_t min_rows_to_check = 32;
constexpr std::int64_t max_rows_to_check = 1024;
constexpr std::int64_t elements_to_check = std::int64_t{1} << 21;  // sorting them takes the reference about a second

class GpuBench final : public BenchRunner {
 public:
  /// On the GPU that the calling thread uses.
  GpuBench(const RandomSpec& random, const Machine& machine, int repeats)
      : BenchRunner(random, machine, repeats),
        flush_bytes_(std::max(flush_bytes, flush_times_l2 * gpu::info(machine.traits.device.ordinal).l2_bytes)),
        flush_(gpu::device_bytes(flush_bytes_)) {}

  [[nodiscard]] BenchResult measure(const Problem& problem) override;

 private:
  void prepare_inputs(const Problem& problem);
  template <typename Work>
  double seconds_of(Work&& work);
  void check_some_rows(const Problem& problem, const void* input, const ResultBuffers& results, BenchResult& result);
  double passes_per_row(Problem problem, const void* input, const ResultBuffers& results);

  std::size_t flush_bytes_ = 0;
  OwnedBytes flush_;
  std::int64_t rows_ = -1;
  std::int64_t cols_ = -1;
  std::vector<OwnedBytes> inputs_;
  gpu::Event begin_;
  gpu::Event end_;
  gpu::Stream stream_;  // declared last, so destroyed first: it waits for work that uses the memory above
};

/// Keeps the inputs of the shape before, which often differs in k alone.
void GpuBench::prepare_inputs(const Problem& problem) {
  if (problem.rows == rows_ && problem.cols == cols_) return;
  inputs_.clear();  // freed before new ones are allocated, so that large shapes fit
  rows_ = -1;       // in case an allocation below throws
  const std::size_t bytes = input_bytes(problem);
  const std::size_t wanted = std::clamp(bytes_of_inputs / bytes, min_inputs, max_inputs);
  // The GPU also holds the results and a copy of as many bytes.
  const std::size_t others = bytes + 2 * static_cast<std::size_t>(problem.rows) * result_bytes_per_row(problem);
  const std::size_t free = gpu::free_memory();
  const std::size_t fit = free > others ? (free - others) / bytes : 0;
  const std::size_t count = std::clamp<std::size_t>(fit, 1, wanted);
  const std::int64_t elements = problem.rows * problem.cols;
  const std::int64_t piece = std::min(elements, elements_per_piece);
  const auto size = static_cast<std::int64_t>(size_of(problem.dtype));
  const OwnedBytes made = gpu::pinned_bytes(static_cast<std::size_t>(piece * size));
  for (std::size_t i = 0; i < count; ++i) {
    inputs_.push_back(gpu::device_bytes(bytes));
    for (std::int64_t first = 0; first < elements; first += piece) {
      const std::int64_t some = std::min(piece, elements - first);
      fill_random(random_, static_cast<std::int64_t>(i) * elements + first, some, made.get(), pool_);
      stream_.copy(inputs_.back().get() + first * size, made.get(), static_cast<std::size_t>(some * size));
      stream_.wait();
    }
  }
  rows_ = problem.rows;
  cols_ = problem.cols;
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

void GpuBench::check_some_rows(const Problem& problem, const void* input, const ResultBuffers& results,
                               BenchResult& result) {
  const std::int64_t wanted = std::clamp(elements_to_check / problem.cols, min_rows_to_check, max_rows_to_check);
  const std::int64_t count = std::min(wanted, problem.rows);
  const std::size_t row_bytes = static_cast<std::size_t>(problem.cols) * size_of(problem.dtype);
  std::vector<std::byte> row_on_host(row_bytes);
  const ResultBuffers results_on_host(problem, 1);
  ContractChecker checker(problem);
  for (std::int64_t i = 0; i < count && result.violation.empty(); ++i) {
    const std::int64_t row = count == 1 ? 0 : (problem.rows - 1) * i / (count - 1);
    stream_.copy(row_on_host.data(), static_cast<const std::byte*>(input) + static_cast<std::size_t>(row) * row_bytes,
                 row_bytes);
    for (std::size_t array = 0; array < results.arrays(); ++array) {
      const std::span<std::byte> to = results_on_host.part(array, 1);
      stream_.copy(to.data(), results.part(array, row, 1).data(), to.size());
    }
    stream_.wait();
    const auto violation = checker.check(row_on_host.data(), 1, results_on_host.results());
    if (violation) result.violation = fmt::format("row {}: {}", row, violation->reason);
    ++result.rows_checked;
  }
}

/// In a separate run, since counting passes costs a little time.
double GpuBench::passes_per_row(Problem problem, const void* input, const ResultBuffers& results) {
  problem.passes = true;
  Plan plan;
  require(make_plan(problem, traits_, plan));
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

BenchResult GpuBench::measure(const Problem& problem) {
  prepare_inputs(problem);
  const std::size_t bytes =
      input_bytes(problem) + static_cast<std::size_t>(problem.rows) * result_bytes_per_row(problem);
  BenchResult result;
  result.bytes = static_cast<double>(bytes);
  require(make_plan(problem, traits_, result.plan));
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
  const void* input = nullptr;  // of the last run
  const auto run_once = [&] {
    require(run(result.plan, input, results.output(), {workspace.get(), result.plan.workspace_bytes},
                {.stream = stream_.handle()}));
  };
  const auto time_run = [&] {
    input = inputs_[runs++ % inputs_.size()].get();
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
  for (int repeat = 0; repeat < repeats_; ++repeat) {  // alternating, so that a slow moment hits both
    result.samples_s.push_back(time_run());
    floors.push_back(time_copy());
  }
  result.seconds = median(result.samples_s);
  result.floor_s = median(floors);
  check_some_rows(problem, input, results, result);
  result.passes_per_row = passes_per_row(problem, input, results);
  return result;
}

}  // namespace

std::unique_ptr<BenchRunner> gpu_bench(const RandomSpec& random, const Machine& machine, int repeats) {
  gpu::use(machine.traits.device.ordinal);
  return std::make_unique<GpuBench>(random, machine, repeats);
}

}  // namespace rtopk::tool
