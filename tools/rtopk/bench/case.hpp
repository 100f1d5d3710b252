// One measurement: a shape, timed beside its floor, and checked. cpu.cpp and gpu.cpp say how.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rtopk/select.hpp>

#include "command_line/options.hpp"
#include "matrix/random.hpp"
#include "system/thread_pool.hpp"

namespace rtopk::tool {

struct BenchResult {
  Plan plan;
  std::vector<double> samples_s;      ///< Seconds per run.
  double seconds = 0.0;               ///< Median of samples_s.
  double floor_s = 0.0;               ///< Median time of a copy: of the matrix on the CPU, of `bytes` on a GPU.
  double bytes = 0.0;                 ///< Counted in GB/s: the matrix, and on a GPU also the results.
  double nth_element_s = 0.0;         ///< CPU only.
  std::int64_t nth_element_rows = 0;  ///< Rows that were timed; the time of all rows is scaled from them.
  double passes_per_row = 0.0;
  std::int64_t rows_checked = 0;
  std::string violation;  ///< Empty if every checked row keeps the contract.

  [[nodiscard]] double gb_per_s() const noexcept { return bytes / seconds * 1e-9; }
  [[nodiscard]] double times_floor() const noexcept { return seconds / floor_s; }
  [[nodiscard]] double speedup() const noexcept { return nth_element_s / seconds; }
};

class BenchRunner {
 public:
  BenchRunner(const RandomSpec& random, const Machine& machine, int repeats);
  virtual ~BenchRunner() = default;
  BenchRunner(const BenchRunner&) = delete;
  BenchRunner& operator=(const BenchRunner&) = delete;

  /// Throws Failure if the problem cannot be timed. Runs nothing.
  void require_valid(const Problem& problem) const;
  [[nodiscard]] virtual BenchResult measure(const Problem& problem) = 0;

 protected:
  RandomSpec random_;
  Traits traits_;
  int repeats_ = 1;
  ThreadPool pool_;
};

[[nodiscard]] std::unique_ptr<BenchRunner> cpu_bench(const RandomSpec& random, const Machine& machine, int repeats);
[[nodiscard]] std::unique_ptr<BenchRunner> gpu_bench(const RandomSpec& random, const Machine& machine, int repeats);

[[nodiscard]] double median(std::vector<double> samples);

/// Bytes of the whole matrix.
[[nodiscard]] std::size_t input_bytes(const Problem& problem) noexcept;

}  // namespace rtopk::tool
