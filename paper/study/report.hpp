// The parts of `rtopk study`: each computes one table and reports it as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "study/rows.hpp"
#include "study/statistics.hpp"

namespace rtopk::tool {

using Json = nlohmann::ordered_json;

struct StudyReport {
  std::string text;
  Json json = Json::object();
};

struct StudyPart {
  const char* name;
  const char* about;
  StudyReport (*run)(const StudySetting& setting);
};

/// In the order in which they run.
[[nodiscard]] const std::vector<StudyPart>& study_parts();

StudyReport report_table1(const StudySetting& setting);  // report_exits.cpp
StudyReport report_table5(const StudySetting& setting);
StudyReport report_table2(const StudySetting& setting);  // report_early_stop.cpp
StudyReport report_rule(const StudySetting& setting);
StudyReport report_passes(const StudySetting& setting);  // report_passes.cpp

/// {"value": ..., "low": ..., "high": ...}: `scale` times a mean, with its interval.
[[nodiscard]] Json estimate_json(const SampleMean& mean, double scale = 1.0);

/// A published number beside ours. They agree if their difference is within chance (95 %, two samples of these sizes)
/// plus the rounding of the printed number.
struct Comparison {
  double ours = 0.0;
  double published = 0.0;
  double tolerance = 0.0;

  [[nodiscard]] double difference() const noexcept { return ours - published; }
  [[nodiscard]] bool agrees() const noexcept;
  /// Three columns: ours, published, difference with a star where they do not agree.
  [[nodiscard]] std::string text() const;
  /// Adds "published", "difference" and "agrees".
  void add_to(Json& json) const;
};

[[nodiscard]] Comparison compare(const SampleMean& ours, double scale, double published, std::int64_t published_rows);

/// The line below a title: rows, elements, device.
[[nodiscard]] std::string setting_text(const StudySetting& setting, std::int64_t rows);

/// Ends a report: adds the notes to its text and its JSON, and removes spaces at the ends of lines.
void finish(StudyReport& report, const std::vector<std::string>& notes);

}  // namespace rtopk::tool
