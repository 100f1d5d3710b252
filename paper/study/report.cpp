#include "study/report.hpp"

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "terminal/words.hpp"

namespace rtopk::tool {
namespace {

constexpr double rounding = 0.005;  // the paper prints two decimals

constexpr std::size_t text_width = 110;

/// A list item, its further lines indented.
std::string item_text(const std::string& text) {
  std::string lines = "- ";
  std::size_t used = 2;
  for (const std::string_view word : words_of(text)) {
    if (used > 2 && used + 1 + word.size() > text_width) {
      lines += "\n  ";
      used = 2;
    }
    if (used != 2) lines += ' ';
    lines += word;
    used += (used == 2 ? 0 : 1) + word.size();
  }
  return lines + "\n";
}

}  // namespace

const std::vector<StudyPart>& study_parts() {
  static const std::vector<StudyPart> parts = {
      {"table1", "at which iteration Algorithm 1 exits: M = 256, epsilon' = 1e-4, k = 16 to 128", report_table1},
      {"table2", "Algorithm 2 after 2 to 8 iterations: errors E1 and E2 and hit rate, M = 256", report_table2},
      {"table5", "the appendix: exits with epsilon = 0 for 14 pairs of M and k, their mean, E(n)", report_table5},
      {"rule", "hit rates after the same passes: Algorithm 2 as printed, the paper's kernel, ours", report_rule},
      {"passes", "beyond the paper: passes of the library's search and of the paper's, by distribution", report_passes},
  };
  return parts;
}

Json estimate_json(const SampleMean& mean, double scale) {
  const Interval interval = mean.interval();
  return {{"value", scale * mean.mean()}, {"low", scale * interval.low}, {"high", scale * interval.high}};
}

bool Comparison::agrees() const noexcept { return std::abs(difference()) <= tolerance + rounding; }

std::string Comparison::text() const {
  const double shown = std::abs(difference()) < rounding ? 0.0 : difference();  // instead of -0.00
  return fmt::format("{:>7.2f} {:>6.2f} {:>+6.2f}{}", ours, published, shown, agrees() ? ' ' : '*');
}

void Comparison::add_to(Json& json) const {
  json["published"] = published;
  json["difference"] = difference();
  json["agrees"] = agrees();
}

Comparison compare(const SampleMean& ours, double scale, double published, std::int64_t published_rows) {
  return {.ours = scale * ours.mean(),
          .published = published,
          .tolerance = scale * expected_difference(ours.deviation(), ours.count(), published_rows)};
}

std::string setting_text(const StudySetting& setting, std::int64_t rows) {
  return fmt::format("{} rows of {} f32 elements, seed {}, on {}\n", rows, name(setting.random.distribution),
                     setting.random.seed, device_text(setting.machine.traits.device));
}

void finish(StudyReport& report, const std::vector<std::string>& notes) {
  const std::string text = std::exchange(report.text, {});
  for (const std::string_view line : lines_of(text)) {
    report.text += line.substr(0, line.find_last_not_of(' ') + 1);
    report.text += '\n';
  }
  report.json["notes"] = notes;
  report.text += '\n';
  for (const std::string& note : notes) report.text += item_text(note);
}

}  // namespace rtopk::tool
