// One measurement: a shape, timed beside its floor and its baseline, and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rtopk/plan.hpp>

#include "random_matrix.hpp"
#include "thread_pool.hpp"

namespace rtopk::tool {

struct BenchResult {
  Plan plan;
  std::vector<double> samples_s;  ///< Seconds of one run each.
  double seconds = 0.0;           ///< Their median.
  double floor_s = 0.0;           ///< Median of copying the matrix with the same threads.
  double nth_element_s = 0.0;
  std::int64_t nth_element_rows = 0;  ///< Rows that were timed for it; the rest is scaled.
  double passes_per_row = 0.0;
  std::int64_t rows_checked = 0;
  std::string violation;  ///< Empty if the checked rows keep the contract.

  [[nodiscard]] double input_bytes() const noexcept;
  [[nodiscard]] double gb_per_s() const noexcept { return input_bytes() / seconds * 1e-9; }
  [[nodiscard]] double times_floor() const noexcept { return seconds / floor_s; }
  [[nodiscard]] double speedup() const noexcept { return nth_element_s / seconds; }
};

/// Makes the inputs and keeps the last ones, since the shapes of a grid often differ in k alone.
class BenchRunner {
 public:
  BenchRunner(const RandomSpec& random, const Traits& traits, int repeats);

  /// Checks the problem alone. Throws Failure.
  void require_valid(const Problem& problem) const;
  [[nodiscard]] BenchResult measure(const Problem& problem);

 private:
  void prepare_inputs(const Problem& problem);

  RandomSpec random_;
  Traits traits_;
  int repeats_ = 1;
  ThreadPool pool_;
  std::int64_t rows_ = -1;
  std::int64_t cols_ = -1;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<std::byte> copy_;
};

}  // namespace rtopk::tool
