// Table 1 and the table of the paper's appendix: at which iteration Algorithm 1 exits.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "study/exits.hpp"
#include "study/published.hpp"
#include "study/report.hpp"
#include "study/theory.hpp"

namespace rtopk::tool {
namespace {

/// The exits of one (M, k) beside what was published for it.
struct ExitColumn {
  ExitCounts ours;
  const PublishedExits* published = nullptr;  ///< Null for elements that the paper does not study.
  std::int64_t published_rows = 0;

  [[nodiscard]] double percent_until(int iteration) const {
    return 100.0 * static_cast<double>(ours.rows_until(iteration)) / static_cast<double>(ours.rows());
  }

  [[nodiscard]] std::optional<Comparison> compare_at(int iteration) const {
    const std::optional<double> value = published != nullptr ? published->cumulative_at(iteration) : std::nullopt;
    if (!value) return std::nullopt;
    const double mine = percent_until(iteration);
    const double share = 0.005 * (mine + *value);
    const double deviation = std::sqrt(share * (1.0 - share));
    return Comparison{.ours = mine,
                      .published = *value,
                      .tolerance = 100.0 * expected_difference(deviation, ours.rows(), published_rows)};
  }

  [[nodiscard]] int last_iteration() const {
    const int of_paper = published == nullptr
                             ? 0
                             : published->first_iteration - 1 + static_cast<int>(published->cumulative_percent.size());
    return std::max(ours.last_iteration(), of_paper);
  }
};

/// Cumulative percentages over the iterations, a few columns side by side.
std::string cumulative_text(const std::vector<const ExitColumn*>& columns) {
  int last = 0;
  std::string text = fmt::format("{:<5}", "");
  for (const ExitColumn* column : columns) {
    last = std::max(last, column->last_iteration());
    text += fmt::format("  {:<22}", fmt::format("M={} k={}", column->ours.cols, column->ours.k));
  }
  text += fmt::format("\n{:<5}", "iter");
  for (const ExitColumn* column : columns) {
    text += column->published != nullptr ? fmt::format(" {:>7} {:>6} {:>6} ", "ours %", "paper", "diff")
                                         : fmt::format(" {:>7} {:>14}", "ours %", "");
  }
  text += '\n';
  for (int iteration = 1; iteration <= last; ++iteration) {
    text += fmt::format("{:<5}", iteration);
    for (const ExitColumn* column : columns) {
      const std::optional<Comparison> comparison = column->compare_at(iteration);
      text += ' ';
      text += comparison ? comparison->text() : fmt::format("{:>7.2f} {:>14}", column->percent_until(iteration), "");
    }
    text += '\n';
  }
  return text;
}

Json column_json(const ExitColumn& column) {
  Json json{{"cols", column.ours.cols}, {"k", column.ours.k}, {"mean", estimate_json(column.ours.iterations)}};
  if (column.published != nullptr) {
    compare(column.ours.iterations, 1.0, column.published->mean, column.published_rows).add_to(json["mean"]);
  }
  json["cumulative_percent"] = Json::array();
  for (int iteration = 1; iteration <= column.last_iteration(); ++iteration) {
    const Interval interval = share_interval(column.ours.rows_until(iteration), column.ours.rows());
    Json at{{"iteration", iteration},
            {"value", column.percent_until(iteration)},
            {"low", 100.0 * interval.low},
            {"high", 100.0 * interval.high}};
    if (const auto comparison = column.compare_at(iteration)) comparison->add_to(at);
    json["cumulative_percent"].push_back(std::move(at));
  }
  return json;
}

/// "  M=256 k=16   7.33 [7.31, 7.34]   7.60  -0.27*"
std::string mean_text(const ExitColumn& column) {
  const Interval interval = column.ours.iterations.interval();
  std::string text = fmt::format("{:>6} {:>5} {:>8.2f} [{:5.2f}, {:5.2f}]", column.ours.cols, column.ours.k,
                                 column.ours.iterations.mean(), interval.low, interval.high);
  if (column.published != nullptr) {
    text += compare(column.ours.iterations, 1.0, column.published->mean, column.published_rows).text().substr(7);
  }
  return text;
}

/// Bounds of the mean that follows from the published cumulative percentages. They are bounds because the paper does
/// not print the first iterations.
Interval mean_of_published(const PublishedExits& column) {
  double iterations_after = 0.0;
  for (const double percent : column.cumulative_percent) iterations_after += 1.0 - percent / 100.0;
  const double unprinted = column.first_iteration - 1;
  const double most = 1.0 + unprinted + iterations_after;
  return {most - unprinted * column.cumulative_percent.front() / 100.0, most};
}

std::vector<ExitColumn> count_table(const StudySetting& setting, const char* label,
                                    std::span<const PublishedExits> published, double epsilon,
                                    std::int64_t published_rows, std::int64_t rows) {
  std::map<std::int64_t, std::vector<std::int64_t>> ks_of;
  for (const PublishedExits& column : published) ks_of[column.cols].push_back(column.k);
  std::vector<ExitColumn> columns;
  for (const auto& [cols, ks] : ks_of) {
    const std::string text = fmt::format("{}, M={}", label, cols);
    for (ExitCounts& counts : count_exits(setting, text, cols, ks, epsilon, rows)) {
      const auto same = [&](const PublishedExits& p) { return p.cols == counts.cols && p.k == counts.k; };
      const auto found = std::find_if(published.begin(), published.end(), same);
      columns.push_back({.ours = std::move(counts),
                         .published = setting.as_published() ? &*found : nullptr,
                         .published_rows = published_rows});
    }
  }
  return columns;
}

constexpr const char* definition =
    "Exit iteration: how often the loop of Algorithm 1 has run when it ends, because exactly k elements are at or "
    "above the threshold or because the interval is no wider than epsilon. Cumulative: the rows that have ended by "
    "then.";

constexpr const char* star =
    "*: ours and the published number differ by more than chance and rounding explain. Chance is the difference that "
    "two "
    "samples of these sizes stay below in 19 of 20 cases, so a few stars are expected.";

}  // namespace

StudyReport report_table1(const StudySetting& setting) {
  const std::int64_t rows = setting.rows_or(published_rows_table1);
  const std::vector<ExitColumn> columns =
      count_table(setting, "table1", published_table1(), published_epsilon_table1, published_rows_table1, rows);
  StudyReport report;
  report.json = {{"part", "table1"}, {"rows", rows}, {"epsilon", published_epsilon_table1}, {"columns", Json::array()}};
  report.text = "Table 1: exit iterations of Algorithm 1, M = 256, epsilon' = 1e-4\n";
  report.text += setting_text(setting, rows) + "\n";
  std::vector<const ExitColumn*> all;
  for (const ExitColumn& column : columns) all.push_back(&column);
  report.text += cumulative_text(all);
  report.text += fmt::format("\n{:>6} {:>5} {:>8} {:>14}", "M", "k", "mean", "95 %");
  if (setting.as_published()) {
    report.text += fmt::format(" {:>6} {:>6}   mean of the published column", "paper", "diff");
  }
  report.text += '\n';
  for (const ExitColumn& column : columns) {
    report.json["columns"].push_back(column_json(column));
    report.text += mean_text(column);
    if (column.published != nullptr) {
      const Interval implied = mean_of_published(*column.published);
      report.text += fmt::format("  {:.2f} to {:.2f}", implied.low, implied.high);
      report.json["columns"].back()["mean_of_published_column"] = {{"low", implied.low}, {"high", implied.high}};
    }
    report.text += '\n';
  }
  std::vector<std::string> notes = {definition};
  if (setting.as_published()) {
    notes.emplace_back(star);
    notes.emplace_back(
        "The published averages are not the means of the published columns. Those means are given too, as a range, "
        "because iterations 1 and 2 are not printed. Compare ours with that range.");
    notes.emplace_back(
        "Computed is Algorithm 1 as printed. It stops at an interval of epsilon' times the maximum, about 2.8e-4 here, "
        "which takes at most 15 iterations for nearly every row. The caption says epsilon = 1e-4, and the published "
        "columns end at 16, as they would with that interval.");
  }
  finish(report, notes);
  return report;
}

StudyReport report_table5(const StudySetting& setting) {
  const std::int64_t rows = setting.rows_or(published_rows_table5);
  const std::vector<ExitColumn> columns =
      count_table(setting, "table5", published_table5(), 0.0, published_rows_table5, rows);
  StudyReport report;
  report.json = {{"part", "table5"}, {"rows", rows}, {"epsilon", 0.0}, {"columns", Json::array()}};
  report.text = "Table 5 (appendix): exit iterations of Algorithm 1, epsilon = 0\n" + setting_text(setting, rows);
  for (auto first = columns.begin(); first != columns.end();) {
    std::vector<const ExitColumn*> block;
    const std::int64_t cols = first->ours.cols;
    for (; first != columns.end() && first->ours.cols == cols; ++first) block.push_back(&*first);
    report.text += fmt::format("\n{}", cumulative_text(block));
  }
  report.text += fmt::format("\n{:>6} {:>5} {:>8} {:>14}", "M", "k", "mean", "95 %");
  if (setting.as_published()) {
    report.text += fmt::format(" {:>6} {:>6}   {:>7} {:>6} {:>6}", "paper", "diff", "E(n)", "paper", "diff");
  }
  report.text += '\n';
  for (const ExitColumn& column : columns) {
    Json json = column_json(column);
    report.text += mean_text(column);
    if (column.published != nullptr) {
      const Comparison theory{.ours = expected_iterations(column.ours.cols, column.ours.k),
                              .published = column.published->theory};
      json["theory"] = {{"value", theory.ours}};
      theory.add_to(json["theory"]);
      report.text += "  " + theory.text();
    }
    report.text += '\n';
    report.json["columns"].push_back(std::move(json));
  }
  std::vector<std::string> notes = {definition};
  notes.emplace_back(
      "With epsilon = 0 the loop as printed never ends for a row whose k-th and (k+1)-th element are equal. Here it "
      "also ends when the threshold cannot move any more.");
  if (setting.as_published()) {
    notes.emplace_back(
        "E(n) = log2(2 M sqrt(ln M / pi)) - (Phi^-1(1 - k/M))^2 / (2 ln 2): the paper's theory, computed without "
        "rows.");
    notes.emplace_back(star);
  }
  finish(report, notes);
  return report;
}

}  // namespace rtopk::tool
