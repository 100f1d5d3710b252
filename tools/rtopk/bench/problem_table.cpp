// The table of random problems.
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "bench/summary.hpp"
#include "bench/tables.hpp"

namespace rtopk::tool {
namespace {

/// "pairs by_value", "dense, smallest".
std::string selection_text(const Problem& problem) {
  std::string text = name(problem.form);
  if (problem.form == Form::pairs) text += fmt::format(" {}", name(problem.order));
  if (problem.direction == Direction::smallest) text += ", smallest";
  return text;
}

/// "aligned", "offset 3", "gap 17, offset 3": where rows begin, in elements.
std::string layout_text(const BenchCase& bench) {
  const std::int64_t gap = stride_of(bench.problem) - bench.problem.cols;
  if (gap == 0 && bench.input_offset == 0) return "aligned";
  if (gap == 0) return fmt::format("offset {}", bench.input_offset);
  return bench.input_offset == 0 ? fmt::format("gap {}", gap)
                                 : fmt::format("gap {}, offset {}", gap, bench.input_offset);
}

constexpr const char* case_columns = "{:>9} {:>7} {:>6} {:<5} {:<24} {:<10} {:<16}";

std::string case_heading() {
  return fmt::format(fmt::runtime(case_columns), "rows", "cols", "k", "dtype", "selection", "data", "layout");
}

std::string case_text(const BenchCase& bench) {
  const Problem& problem = bench.problem;
  return fmt::format(fmt::runtime(case_columns), problem.rows, problem.cols, problem.k, name(problem.dtype),
                     selection_text(problem), name(bench.data), layout_text(bench));
}

class ProblemTable final : public BenchTable {
 public:
  using BenchTable::BenchTable;

  void print_header(const std::vector<BenchCase>& cases) const override {
    print_machine();
    fmt::print("{} random problems of seed {}; {}\n\n", cases.size(), setting_.seed, device_and_repeats());
    fmt::print("{} {:>10} {:>8}  {}\n", case_heading(), "ms", "x floor", "family");
  }

  void print(const BenchResult& result) const override {
    fmt::print("{} {:>10.4f} {:>8.2f}  {}\n", case_text(result.timed), result.seconds * 1e3, result.times_floor(),
               name(result.plan.family));
    print_violation(result);
  }

  void print_footer(const std::vector<BenchResult>& results) const override {
    fmt::print("\n{:<16} {:>9} {:>8} {:>8} {:>8} {:>8}\n", "x floor", "problems", "mean", "median", "90th", "worst");
    for (const BenchGroup& group : groups_of(results)) {
      fmt::print("{:<16} {:>9} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f}\n", group.name, group.problems, group.geometric_mean,
                 group.median, group.percentile_90, group.worst);
    }
    fmt::print("\nthe worst:\n");
    for (const BenchResult* const result : worst_of(results)) {
      const BenchCase& bench = result->timed;
      const Problem& problem = bench.problem;
      fmt::print("{:>7.2f} x floor, problem {}: {}x{} k={} {} {}, {}, {}\n", result->times_floor(), bench.number,
                 problem.rows, problem.cols, problem.k, name(problem.dtype), selection_text(problem), name(bench.data),
                 layout_text(bench));
      fmt::print("{:>16} {} {}\n", "", name(result->plan.family), config_text(result->plan));
    }
    std::int64_t checked = 0;
    for (const BenchResult& result : results) checked += result.rows_checked;
    if (setting_.machine.is_gpu()) {
      fmt::print(
          "\nx floor: time / time of a copy on the GPU that moves as many bytes: the 32-byte sectors that the rows "
          "touch,\n"
          "and the results. The L2 cache was cold. mean: the geometric one; 90th: the 90th percentile. {} rows were\n"
          "checked against the reference on the CPU.\n",
          checked);
    } else {
      fmt::print(
          "\nx floor: time / time of a copy of as many bytes as the rows have, with the same threads. mean: the "
          "geometric\n"
          "one; 90th: the 90th percentile. {} rows were checked against the reference.\n",
          checked);
    }
  }
};

}  // namespace

std::unique_ptr<BenchTable> problem_table(const BenchSetting& setting) {
  return std::make_unique<ProblemTable>(setting);
}

void print_cases(const std::vector<BenchCase>& cases) {
  fmt::print("{} {}\n", case_heading(), "seed");
  for (const BenchCase& bench : cases) fmt::print("{} {}\n", case_text(bench), bench.seed);
}

}  // namespace rtopk::tool
