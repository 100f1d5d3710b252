#include "bench/case.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <tuple>

#include "matrix/source.hpp"
#include "selection/checked_rows.hpp"
#include "terminal/failure.hpp"

namespace rtopk::tool {
namespace {

void make_tight_rows(const BenchCase& bench, std::int64_t first, std::int64_t count, std::byte* out, ThreadPool& pool) {
  const Problem& problem = bench.problem;
  if (const RowKind* const kind = std::get_if<RowKind>(&bench.data)) {
    const RowSpec spec{.dtype = problem.dtype, .cols = problem.cols, .k = problem.k, .kind = *kind, .seed = bench.seed};
    return make_rows(spec, first, count, out, pool);
  }
  const RandomSpec spec{.distribution = std::get<Distribution>(bench.data), .seed = bench.seed, .dtype = problem.dtype};
  fill_random(spec, first * problem.cols, count * problem.cols, out, pool);
}

}  // namespace

const char* name(const BenchData& data) noexcept {
  const RowKind* const kind = std::get_if<RowKind>(&data);
  return kind != nullptr ? name(*kind) : name(*std::get_if<Distribution>(&data));
}

BenchRunner::BenchRunner(const BenchSetting& setting) : setting_(setting), pool_(setting.machine.cpu_threads) {}

Plan BenchRunner::plan_of(const Problem& problem) const {
  Plan plan;
  require(plan_for(problem, setting_.machine.traits, setting_.family, plan));
  return plan;
}

void BenchRunner::check_some_rows(std::int64_t rows, const std::byte* first_row, const ResultBuffers& results,
                                  const std::function<void(void* to, const void* from, std::size_t bytes)>& copy,
                                  BenchResult& result) {
  const Problem& problem = result.timed.problem;
  const std::int64_t count = std::min(rows, problem.rows);
  const auto row_of = [&](std::int64_t i) { return count == 1 ? 0 : (problem.rows - 1) * i / (count - 1); };
  const std::size_t size = size_of(problem.dtype);
  const std::size_t row_bytes = static_cast<std::size_t>(problem.cols) * size;
  const std::size_t stride_bytes = static_cast<std::size_t>(stride_of(problem)) * size;
  std::vector<std::byte> rows_here(static_cast<std::size_t>(count) * row_bytes);
  const ResultBuffers results_here(problem, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = row_of(i);
    copy(rows_here.data() + static_cast<std::size_t>(i) * row_bytes,
         first_row + static_cast<std::size_t>(row) * stride_bytes, row_bytes);
    for (std::size_t array = 0; array < results.arrays(); ++array) {
      const std::span<std::byte> to = results_here.part(array, i, 1);
      copy(to.data(), results.part(array, row, 1).data(), to.size());
    }
  }
  FirstViolation broken;
  check_rows(rows_here.data(), 0, count, results_here.results(), problem, pool_, broken);
  if (broken.get()) result.violation = fmt::format("row {}: {}", row_of(broken.get()->row), broken.get()->reason);
  result.rows_checked = count;
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : 0.5 * (samples[middle - 1] + samples[middle]);
}

std::int64_t stride_of(const Problem& problem) noexcept {
  return problem.row_stride != 0 ? problem.row_stride : problem.cols;
}

std::size_t input_bytes(const Problem& problem) noexcept {
  return static_cast<std::size_t>(problem.rows * problem.cols) * size_of(problem.dtype);
}

std::size_t memory_bytes(const BenchCase& bench) noexcept {
  const Problem& problem = bench.problem;
  return static_cast<std::size_t>(bench.input_offset + problem.rows * stride_of(problem)) * size_of(problem.dtype);
}

bool same_input(const BenchCase& a, const BenchCase& b) noexcept {
  const auto matrix = [](const BenchCase& bench) {
    const Problem& problem = bench.problem;
    // Rows of some kinds depend on k.
    const std::int64_t k = std::holds_alternative<RowKind>(bench.data) ? problem.k : 0;
    return std::tuple(problem.rows, problem.cols, k, stride_of(problem), problem.dtype, bench.input_offset, bench.data,
                      bench.seed, bench.distinct_rows);
  };
  return matrix(a) == matrix(b);
}

void write_rows(const BenchCase& bench, std::int64_t first, std::int64_t count, std::byte* out, ThreadPool& pool) {
  const Problem& problem = bench.problem;
  if (stride_of(problem) == problem.cols) return make_tight_rows(bench, first, count, out, pool);
  const std::size_t size = size_of(problem.dtype);
  const std::size_t row_bytes = static_cast<std::size_t>(problem.cols) * size;
  const std::size_t stride_bytes = static_cast<std::size_t>(stride_of(problem)) * size;
  std::vector<std::byte> tight(static_cast<std::size_t>(count) * row_bytes);
  make_tight_rows(bench, first, count, tight.data(), pool);
  for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
    std::memcpy(out + row * stride_bytes, tight.data() + row * row_bytes, row_bytes);
  }
}

}  // namespace rtopk::tool
