#include "bench/report.hpp"

#include <nlohmann/json.hpp>

#include <rtopk/rtopk.hpp>

#include "bench/summary.hpp"
#include "system/machine.hpp"

namespace rtopk::tool {
namespace {

using Json = nlohmann::ordered_json;

/// What is selected from each row, and how.
void add_options(const Problem& problem, Json& json) {
  json["dtype"] = name(problem.dtype);
  json["direction"] = name(problem.direction);
  json["order"] = name(problem.order);
  json["form"] = name(problem.form);
  json["index_type"] = name(problem.index_type);
  json["max_iter"] = problem.max_iter;
  json["rule"] = name(problem.rule);
  json["epsilon"] = problem.epsilon;
  json["search"] = name(problem.search);
}

/// All that is needed to make the same problem and the same matrix again.
Json case_json(const BenchCase& bench) {
  const Problem& problem = bench.problem;
  Json json = Json::object();
  json["number"] = bench.number;
  json["rows"] = problem.rows;
  json["cols"] = problem.cols;
  json["k"] = problem.k;
  add_options(problem, json);
  json["row_stride"] = problem.row_stride;
  json["input_offset"] = bench.input_offset;
  json["data"] = name(bench.data);
  json["seed"] = bench.seed;
  json["distinct_rows"] = bench.distinct_rows;
  return json;
}

Json result_json(const BenchResult& result) {
  Json json = case_json(result.timed);
  json["family"] = name(result.plan.family);
  json["config"] = config_text(result.plan);
  if (result.plan.problem.device.kind == DeviceKind::cpu) json["threads"] = result.plan.threads;
  json["ms"] = result.seconds * 1e3;
  json["samples_ms"] = Json::array();
  for (const double sample : result.samples_s) json["samples_ms"].push_back(sample * 1e3);
  json["gb_per_s"] = result.gb_per_s();
  json["floor_ms"] = result.floor_s * 1e3;
  json["times_floor"] = result.times_floor();
  if (result.nth_element_rows > 0) {
    json["nth_element_ms"] = result.nth_element_s * 1e3;
    json["nth_element_rows_timed"] = result.nth_element_rows;
    json["times_faster_than_nth_element"] = result.speedup();
  }
  json["passes_per_row"] = result.passes_per_row;
  json["rows_checked"] = result.rows_checked;
  json["correct"] = result.violation.empty();
  if (!result.violation.empty()) json["violation"] = result.violation;
  return json;
}

Json group_json(const BenchGroup& group) {
  Json json = Json::object();
  json["group"] = group.name;
  json["problems"] = group.problems;
  json["geometric_mean"] = group.geometric_mean;
  json["median"] = group.median;
  json["percentile_90"] = group.percentile_90;
  json["worst"] = group.worst;
  return json;
}

Json heading_json(Device device) {
  Json json = Json::object();
  json["command"] = command_line();
  json["version"] = version();
  json["date"] = date_utc();
  json["cpu"] = cpu_model();
  json["device"] = device_text(device);
  return json;
}

std::string text_of(const Json& json) { return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string report_json(const BenchSetting& setting, const std::vector<BenchResult>& results, std::int64_t left_out) {
  const Traits& traits = setting.machine.traits;
  Json json = heading_json(traits.device);
  if (setting.machine.is_gpu()) {
    json["gpu"] = setting.where;
    json["compute_capability"] = traits.compute_capability;
    json["multiprocessors"] = traits.multiprocessors;
  } else {
    json["cpu_target"] = build_info().cpu_target;
    json["threads"] = traits.threads;
  }
  json["repeats"] = setting.repeats;
  json["seed"] = setting.seed;
  if (setting.random_shapes) {
    json["left_out"] = left_out;
    json["times_floor"] = Json::array();
    for (const BenchGroup& group : groups_of(results)) json["times_floor"].push_back(group_json(group));
    json["worst"] = Json::array();
    for (const BenchResult* const result : worst_of(results)) {
      json["worst"].push_back(result->timed.number);
    }
  } else {
    // What named shapes share is here as well as with each of them.
    add_options(results.front().timed.problem, json);
    json["distribution"] = name(results.front().timed.data);
  }
  json["results"] = Json::array();
  for (const BenchResult& result : results) json["results"].push_back(result_json(result));
  return text_of(json);
}

std::string cases_json(Device device, const std::vector<BenchCase>& cases, std::int64_t left_out) {
  Json json = heading_json(device);
  json["left_out"] = left_out;
  json["problems"] = Json::array();
  for (const BenchCase& bench : cases) json["problems"].push_back(case_json(bench));
  return text_of(json);
}

}  // namespace rtopk::tool
