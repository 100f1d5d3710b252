// One measurement: a case, timed beside its floor, and checked. cpu.cpp and gpu.cpp say how.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <rtopk/select.hpp>

#include "command_line/options.hpp"
#include "matrix/random.hpp"
#include "matrix/rows.hpp"
#include "selection/result_buffers.hpp"
#include "system/thread_pool.hpp"

namespace rtopk::tool {

/// What a matrix is filled with: numbers of one distribution, or rows of one kind.
using BenchData = std::variant<Distribution, RowKind>;

[[nodiscard]] const char* name(const BenchData& data) noexcept;

/// A problem, and the matrix that it is timed on.
struct BenchCase {
  std::int64_t number = 0;  ///< Its place in the list, or the number of the random problem.
  Problem problem;
  std::int64_t input_offset = 0;  ///< Elements from an aligned address to the first row.
  BenchData data = Distribution::normal;
  std::uint64_t seed = 0;  ///< Of the data.
  /// On a GPU the matrix repeats after so many rows. Those of the CPU are small, and all of their rows differ.
  std::int64_t distinct_rows = 0;
};

/// What all cases of a table share.
struct BenchSetting {
  Machine machine;
  std::string where;             ///< Name of the CPU or GPU.
  std::optional<Family> family;  ///< Empty: the library picks.
  int repeats = 1;
  std::uint64_t seed = 0;
  bool random_shapes = false;
};

struct BenchResult {
  BenchCase timed;
  Plan plan;
  std::vector<double> samples_s;      ///< Seconds per run.
  double seconds = 0.0;               ///< Median of samples_s.
  double floor_s = 0.0;               ///< Median time of a copy: of the matrix on the CPU, of `bytes` on a GPU.
  double bytes = 0.0;                 ///< Counted in GB/s: the matrix; on a GPU its sectors, and the results.
  double nth_element_s = 0.0;         ///< CPU only, and not of random shapes.
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
  explicit BenchRunner(const BenchSetting& setting);
  virtual ~BenchRunner() = default;
  BenchRunner(const BenchRunner&) = delete;
  BenchRunner& operator=(const BenchRunner&) = delete;

  [[nodiscard]] virtual BenchResult measure(const BenchCase& bench) = 0;

 protected:
  /// The plan that is timed. Throws Failure if there is none.
  [[nodiscard]] Plan plan_of(const Problem& problem) const;

  /// Checks some rows, evenly spread, the first and the last among them. `first_row` and `results` are where the device
  /// has them, and `copy` copies from there.
  void check_some_rows(std::int64_t rows, const std::byte* first_row, const ResultBuffers& results,
                       const std::function<void(void* to, const void* from, std::size_t bytes)>& copy,
                       BenchResult& result);

  BenchSetting setting_;
  ThreadPool pool_;
};

[[nodiscard]] std::unique_ptr<BenchRunner> cpu_bench(const BenchSetting& setting);
[[nodiscard]] std::unique_ptr<BenchRunner> gpu_bench(const BenchSetting& setting);

[[nodiscard]] double median(std::vector<double> samples);

/// Elements from one row to the next.
[[nodiscard]] std::int64_t stride_of(const Problem& problem) noexcept;

/// Bytes of the elements of the matrix.
[[nodiscard]] std::size_t input_bytes(const Problem& problem) noexcept;

/// Bytes from the aligned address to the end of the last row's stride: what the matrix takes in memory.
[[nodiscard]] std::size_t memory_bytes(const BenchCase& bench) noexcept;

/// Whether two cases are timed on the same matrix: often they differ in k alone.
[[nodiscard]] bool same_input(const BenchCase& a, const BenchCase& b) noexcept;

/// Writes rows [first, first + count) at their stride, and nothing between them.
void write_rows(const BenchCase& bench, std::int64_t first, std::int64_t count, std::byte* out, ThreadPool& pool);

}  // namespace rtopk::tool
