// Timing on the CPU, beside a copy of the matrix and std::nth_element.
#include <algorithm>
#include <chrono>
#include <cmath>

#include <rtopk/rtopk.hpp>

#include "bench/baselines.hpp"
#include "bench/case.hpp"
#include "matrix/source.hpp"
#include "selection/contract.hpp"
#include "selection/result_buffers.hpp"
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

void check_some_rows(const Problem& problem, const void* input, const ResultBuffers& buffers, BenchResult& result) {
  ContractChecker checker(problem);
  const std::int64_t count = std::min(rows_to_check, problem.rows);
  const std::size_t row_bytes = static_cast<std::size_t>(problem.cols) * size_of(problem.dtype);
  for (std::int64_t i = 0; i < count && result.violation.empty(); ++i) {
    const std::int64_t row = count == 1 ? 0 : (problem.rows - 1) / (count - 1) * i;
    const auto* elements = static_cast<const std::byte*>(input) + static_cast<std::size_t>(row) * row_bytes;
    const auto violation = checker.check(elements, 1, buffers.results().after(problem, row));
    if (violation) result.violation = fmt::format("row {}: {}", row, violation->reason);
    ++result.rows_checked;
  }
}

/// Keeps its inputs for the next shape, which often differs in k alone.
class CpuBench final : public BenchRunner {
 public:
  using BenchRunner::BenchRunner;
  [[nodiscard]] BenchResult measure(const Problem& problem) override;

 private:
  void prepare_inputs(const Problem& problem);

  std::int64_t rows_ = -1;
  std::int64_t cols_ = -1;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<std::byte> copy_;
};

void CpuBench::prepare_inputs(const Problem& problem) {
  if (problem.rows == rows_ && problem.cols == cols_) return;
  const std::size_t bytes = input_bytes(problem);
  inputs_.clear();
  copy_.clear();
  copy_.shrink_to_fit();  // freed before new ones are allocated, so that large shapes fit
  inputs_.resize(bytes <= two_inputs_up_to ? 2 : 1);
  std::int64_t first = 0;
  for (std::vector<std::byte>& input : inputs_) {
    input.resize(bytes);
    fill_random(random_, first, problem.rows * problem.cols, input.data(), pool_);
    first += problem.rows * problem.cols;
  }
  copy_.resize(bytes);
  rows_ = problem.rows;
  cols_ = problem.cols;
}

BenchResult CpuBench::measure(const Problem& problem) {
  prepare_inputs(problem);
  BenchResult result;
  result.bytes = static_cast<double>(input_bytes(problem));
  require(make_plan(problem, traits_, result.plan));
  std::vector<std::byte> workspace(result.plan.workspace_bytes);
  const ResultBuffers buffers(problem, problem.rows);
  std::size_t runs = 0;
  const auto run_once = [&] {
    const void* const input = inputs_[runs++ % inputs_.size()].data();
    require(run(result.plan, input, buffers.output(), {workspace.data(), workspace.size()}));
  };
  const auto copy_once = [&] { copy_bytes(inputs_[runs % inputs_.size()].data(), copy_.data(), copy_.size(), pool_); };

  run_once();  // warm-up: pages, threads and caches
  copy_once();
  const double first_s = seconds_of(run_once);
  const auto per_sample =
      static_cast<int>(std::clamp(std::ceil(min_sample_s / std::max(first_s, 1e-9)), 1.0, max_runs_per_sample));
  std::vector<double> floors;
  for (int repeat = 0; repeat < repeats_; ++repeat) {  // alternating, so that a slow moment hits both
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
  check_some_rows(problem, inputs_[0].data(), buffers, result);
  Problem counted = problem;
  counted.passes = true;
  Plan counted_plan;
  require(make_plan(counted, traits_, counted_plan));
  workspace.resize(std::max(workspace.size(), counted_plan.workspace_bytes));
  std::vector<std::int32_t> passes(static_cast<std::size_t>(problem.rows));
  Output output = buffers.output();
  output.passes = passes.data();
  require(run(counted_plan, inputs_[0].data(), output, {workspace.data(), workspace.size()}));
  for (const std::int32_t n : passes) result.passes_per_row += n;
  result.passes_per_row /= static_cast<double>(problem.rows);

  const NthElementTime nth = time_nth_element(problem, inputs_[0].data(), pool_);
  result.nth_element_s = nth.seconds;
  result.nth_element_rows = nth.rows_timed;
  return result;
}

}  // namespace

std::unique_ptr<BenchRunner> cpu_bench(const RandomSpec& random, const Machine& machine, int repeats) {
  return std::make_unique<CpuBench>(random, machine, repeats);
}

}  // namespace rtopk::tool
