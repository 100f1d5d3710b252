#include "bench/case.hpp"

#include <algorithm>

#include "terminal/failure.hpp"

namespace rtopk::tool {

BenchRunner::BenchRunner(const RandomSpec& random, const Machine& machine, int repeats)
    : random_(random), traits_(machine.traits), repeats_(repeats), pool_(machine.cpu_threads) {}

void BenchRunner::require_valid(const Problem& problem) const {
  Plan plan;
  const Status status = make_plan(problem, traits_, plan);
  if (!status.ok()) fail("shape {}x{}x{}: {}", problem.rows, problem.cols, problem.k, status.text());
  if (problem.rows == 0) fail("shape 0x{}x{}: there is nothing to time without rows", problem.cols, problem.k);
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : 0.5 * (samples[middle - 1] + samples[middle]);
}

std::size_t input_bytes(const Problem& problem) noexcept {
  return static_cast<std::size_t>(problem.rows * problem.cols) * size_of(problem.dtype);
}

}  // namespace rtopk::tool
