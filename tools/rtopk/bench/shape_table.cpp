// The table of shapes that share all but rows, columns and k; and what all tables share.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include <rtopk/rtopk.hpp>

#include "bench/tables.hpp"

namespace rtopk::tool {
namespace {

class ShapeTable final : public BenchTable {
 public:
  using BenchTable::BenchTable;

  void print_header(const std::vector<BenchCase>& cases) const override {
    const Problem& problem = cases.front().problem;
    const std::string mode = problem.max_iter > 0
                                 ? fmt::format("max_iter {} ({})", problem.max_iter, name(problem.rule))
                             : problem.epsilon > 0.0 ? fmt::format("epsilon {}", problem.epsilon)
                                                     : fmt::format("exact, search {}", name(problem.search));
    print_machine();
    fmt::print("{}, {}, {}, {}, {}; {}; {}\n\n", name(problem.dtype), name(problem.direction), mode, name(problem.form),
               name(problem.order), name(cases.front().data), device_and_repeats());
    fmt::print("{:>9} {:>7} {:>6} {:>11} {:>8} {:>8}{} {:>11}  {}\n", "rows", "cols", "k", "ms", "GB/s", "x floor",
               setting_.machine.is_gpu() ? "" : fmt::format(" {:>14}", "x nth_element"), "passes/row", "family");
  }

  void print(const BenchResult& result) const override {
    const Problem& problem = result.plan.problem;
    const bool scaled = result.nth_element_rows < problem.rows;
    fmt::print("{:>9} {:>7} {:>6} {:>11.4f} {:>8.2f} {:>8.2f}{} {:>11.2f}  {}\n", problem.rows, problem.cols, problem.k,
               result.seconds * 1e3, result.gb_per_s(), result.times_floor(),
               setting_.machine.is_gpu()
                   ? ""
                   : fmt::format(" {:>14}", fmt::format("{}{:.1f}", scaled ? "~" : "", result.speedup())),
               result.passes_per_row, name(result.plan.family));
    print_violation(result);
  }

  void print_footer(const std::vector<BenchResult>& results) const override {
    const bool on_gpu = setting_.machine.is_gpu();
    double floor = 0.0;
    double speedup = 0.0;
    double worst = 0.0;
    bool scaled = false;
    std::int64_t checked = 0;
    for (const BenchResult& result : results) {
      floor += std::log(result.times_floor());
      worst = std::max(worst, result.times_floor());
      if (!on_gpu) speedup += std::log(result.speedup());
      scaled = scaled || result.nth_element_rows < result.plan.problem.rows;
      checked += result.rows_checked;
    }
    const auto count = static_cast<double>(results.size());
    fmt::print("\n");
    if (results.size() > 1) {
      fmt::print("geometric mean: {:.2f} x floor, {}\n", std::exp(floor / count),
                 on_gpu ? fmt::format("worst {:.2f}", worst)
                        : fmt::format("{:.1f} x faster than nth_element", std::exp(speedup / count)));
    }
    if (on_gpu) {
      fmt::print(
          "x floor: time / time of a copy on the GPU that moves as many bytes: the matrix once, the results once. "
          "GB/s\n"
          "counts the same bytes. The L2 cache was cold. {} rows were checked against the reference on the CPU.\n",
          checked);
    } else {
      fmt::print(
          "x floor: time / time of a copy of the matrix; x nth_element: how many times as fast as std::nth_element;\n"
          "both with the same threads.{} {} rows were checked against the reference.\n",
          scaled ? " ~: timed on part of the rows and scaled." : "", checked);
    }
  }
};

}  // namespace

void BenchTable::print_machine() const {
  const Traits& traits = setting_.machine.traits;
  fmt::print("rtopk {}, {}, {}\n", version(), setting_.where,
             setting_.machine.is_gpu() ? fmt::format("sm_{}", traits.compute_capability)
                                       : std::string(build_info().cpu_target));
}

std::string BenchTable::device_and_repeats() const {
  const Traits& traits = setting_.machine.traits;
  const std::string device = setting_.machine.is_gpu()
                                 ? device_text(traits.device)
                                 : fmt::format("{} {}", traits.threads, traits.threads == 1 ? "thread" : "threads");
  return fmt::format("{}; median of {}", device, setting_.repeats);
}

void BenchTable::print_violation(const BenchResult& result) {
  if (!result.violation.empty()) fmt::print("          WRONG: {}\n", result.violation);
  std::fflush(stdout);
}

std::unique_ptr<BenchTable> shape_table(const BenchSetting& setting) { return std::make_unique<ShapeTable>(setting); }

}  // namespace rtopk::tool
