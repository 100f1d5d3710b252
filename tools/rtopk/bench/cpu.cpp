// Timing on the CPU, beside a copy of the matrix and std::nth_element.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include <rtopk/rtopk.hpp>

#include "bench/baselines.hpp"
#include "bench/case.hpp"
#include "selection/result_buffers.hpp"
#include "system/owned_bytes.hpp"
#include "terminal/failure.hpp"

namespace rtopk::tool {
namespace {

// Runs alternate between two matrices, unless they are too large to keep both, so that a run does not profit from what
// the one before left in caches and branch predictors.
constexpr std::size_t two_inputs_up_to = std::size_t{256} << 20;
constexpr double min_sample_s = 1e-3;  // a sample repeats shorter runs, which the clock cannot resolve
constexpr double max_runs_per_sample = 1000.0;
constexpr std::int64_t rows_to_check = 32;

template <typename Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Keeps its inputs for the next shape, which often differs in k alone.
class CpuBench final : public BenchRunner {
 public:
  using BenchRunner::BenchRunner;
  [[nodiscard]] BenchResult measure(const BenchCase& bench) override;

 private:
  void prepare_inputs(const BenchCase& bench);

  std::optional<BenchCase> prepared_;
  std::vector<OwnedBytes> inputs_;
  std::vector<std::byte> copy_;
};

void CpuBench::prepare_inputs(const BenchCase& bench) {
  if (prepared_ && same_input(*prepared_, bench)) return;
  prepared_.reset();
  inputs_.clear();
  copy_.clear();
  copy_.shrink_to_fit();  // freed before new ones are allocated, so that large shapes fit
  const Problem& problem = bench.problem;
  const std::size_t offset = static_cast<std::size_t>(bench.input_offset) * size_of(problem.dtype);
  const int count = input_bytes(problem) <= two_inputs_up_to ? 2 : 1;
  for (int i = 0; i < count; ++i) {
    inputs_.push_back(aligned_bytes(memory_bytes(bench)));
    write_rows(bench, i * problem.rows, problem.rows, inputs_.back().get() + offset, pool_);
  }
  copy_.resize(input_bytes(problem));
  prepared_ = bench;
}

BenchResult CpuBench::measure(const BenchCase& bench) {
  const Problem& problem = bench.problem;
  prepare_inputs(bench);
  BenchResult result;
  result.timed = bench;
  result.bytes = static_cast<double>(input_bytes(problem));
  result.plan = plan_of(problem);
  std::vector<std::byte> workspace(result.plan.workspace_bytes);
  const ResultBuffers buffers(problem, problem.rows);
  const std::size_t offset = static_cast<std::size_t>(bench.input_offset) * size_of(problem.dtype);
  const std::byte* const first_input = inputs_[0].get() + offset;
  std::size_t runs = 0;
  const auto run_once = [&] {
    const void* const input = inputs_[runs++ % inputs_.size()].get() + offset;
    require(run(result.plan, input, buffers.output(), {workspace.data(), workspace.size()}));
  };
  // As many bytes as the rows have, wherever they are: a copy without gaps is the fastest.
  const auto copy_once = [&] { copy_bytes(inputs_[runs % inputs_.size()].get(), copy_.data(), copy_.size(), pool_); };

  run_once();  // warm-up: pages, threads and caches
  copy_once();
  const double first_s = seconds_of(run_once);
  const auto per_sample =
      static_cast<int>(std::clamp(std::ceil(min_sample_s / std::max(first_s, 1e-9)), 1.0, max_runs_per_sample));
  std::vector<double> floors;
  for (int repeat = 0; repeat < setting_.repeats; ++repeat) {  // alternating, so that a slow moment hits both
    const auto sample = [&](auto&& work) {
      return seconds_of([&] {
               for (int i = 0; i < per_sample; ++i) work();
             }) /
             per_sample;
    };
    result.samples_s.push_back(sample(run_once));
    floors.push_back(sample(copy_once));
  }
  result.seconds = median(result.samples_s);
  result.floor_s = median(floors);

  // Not timed: the check, and counting passes, which costs a little.
  runs = 0;
  run_once();
  check_some_rows(
      rows_to_check, first_input, buffers,
      [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }, result);
  Problem counted = problem;
  counted.passes = true;
  const Plan counted_plan = plan_of(counted);
  workspace.resize(std::max(workspace.size(), counted_plan.workspace_bytes));
  std::vector<std::int32_t> passes(static_cast<std::size_t>(problem.rows));
  Output output = buffers.output();
  output.passes = passes.data();
  require(run(counted_plan, first_input, output, {workspace.data(), workspace.size()}));
  for (const std::int32_t n : passes) result.passes_per_row += n;
  result.passes_per_row /= static_cast<double>(problem.rows);

  if (setting_.random_shapes) return result;  // std::nth_element would take longer than all the rest
  const NthElementTime nth = time_nth_element(problem, first_input, pool_);
  result.nth_element_s = nth.seconds;
  result.nth_element_rows = nth.rows_timed;
  return result;
}

}  // namespace

std::unique_ptr<BenchRunner> cpu_bench(const BenchSetting& setting) { return std::make_unique<CpuBench>(setting); }

}  // namespace rtopk::tool
