// Beyond the paper: passes of the library's exact search and of the paper's, by distribution.
#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "selection/names.hpp"
#include "study/report.hpp"

namespace rtopk::tool {
namespace {

constexpr std::int64_t default_rows = 4096;
constexpr std::array<std::int64_t, 3> lengths = {256, 1024, 4096};
constexpr std::array<std::int64_t, 3> parts_of_a_row = {16, 8, 2};  // k is M divided by one of these

struct Passes {
  std::int64_t k = 0;
  SampleMean ours;
  SampleMean paper;
};

std::vector<Passes> count_passes(const StudySetting& setting, std::int64_t cols, std::int64_t rows) {
  std::vector<Passes> all;
  for (const std::int64_t part : parts_of_a_row) all.push_back({.k = cols / part, .ours = {}, .paper = {}});
  std::optional<RowResults> results;
  const std::string label = fmt::format("passes, {}, M={}", name(setting.random.distribution), cols);
  for_each_batch(setting, label, cols, rows, [&](RowBatch& batch) {
    if (!results) results.emplace(batch.results(all.back().k));
    const auto add = [&](const Problem& problem, SampleMean& mean) {
      batch.select(problem, *results);
      for (std::int64_t row = 0; row < batch.rows(); ++row) mean.add(results->passes()[row]);
    };
    for (Passes& passes : all) {
      add({.k = passes.k}, passes.ours);
      add({.k = passes.k, .search = Search::bisection}, passes.paper);
    }
  });
  return all;
}

}  // namespace

StudyReport report_passes(const StudySetting& setting) {
  const std::int64_t rows = setting.rows_or(default_rows);
  StudyReport report;
  report.json = {{"part", "passes"}, {"rows", rows}, {"cells", Json::array()}};
  report.text = fmt::format(
      "Beyond the paper: passes over a row until the exact selection is known\n{} rows of f32 elements each, seed {}, "
      "on "
      "{}\n\n{:<10} {:>6} {:>6} {:>10} {:>10} {:>8}\n",
      rows, setting.random.seed, device_text(setting.machine.traits.device), "elements", "M", "k", "rtopk", "bisection",
      "fewer");
  for (const Distribution distribution : values_of<Distribution>()) {
    if (distribution == Distribution::constant) continue;  // all elements are equal, so there is no search
    StudySetting here = setting;
    here.random.distribution = distribution;
    for (const std::int64_t cols : lengths) {
      for (const Passes& passes : count_passes(here, cols, rows)) {
        const double saved = passes.paper.mean() - passes.ours.mean();
        report.text += fmt::format("{:<10} {:>6} {:>6} {:>10.2f} {:>10.2f} {:>8.2f}\n", name(distribution), cols,
                                   passes.k, passes.ours.mean(), passes.paper.mean(), saved);
        report.json["cells"].push_back({{"distribution", name(distribution)},
                                        {"cols", cols},
                                        {"k", passes.k},
                                        {"passes", estimate_json(passes.ours)},
                                        {"bisection_passes", estimate_json(passes.paper)}});
      }
    }
  }
  finish(report,
         {"bisection: Algorithm 1 with epsilon = 0. Neither column counts the pass that writes the results, nor the "
          "first pass of the bisection, which finds the least and the greatest element.",
          "rtopk: the passes that the library reports for the plan that it picks. On the CPU, for long rows, it reads "
          "the row once and searches a list of candidates: most of its passes are over far fewer elements.",
          "Passes of neighbouring rows depend on each other (a search starts where the last one ended), so the "
          "intervals of the first column are a little too narrow."});
  return report;
}

}  // namespace rtopk::tool
