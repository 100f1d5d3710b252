#include "bench/summary.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rounding.hpp"
#include "selection/names.hpp"
#include "terminal/words.hpp"

namespace rtopk::tool {
namespace {

constexpr std::size_t worst_count = 10;

BenchGroup group_of(std::string name, std::vector<double> times_floor) {
  std::sort(times_floor.begin(), times_floor.end());
  double logarithms = 0.0;
  for (const double ratio : times_floor) logarithms += std::log(ratio);
  const std::size_t count = times_floor.size();
  return {.name = std::move(name),
          .problems = static_cast<std::int64_t>(count),
          .geometric_mean = std::exp(logarithms / static_cast<double>(count)),
          .median = median(times_floor),
          .percentile_90 = times_floor[ceil_div(count * 9, std::size_t{10}) - 1],
          .worst = times_floor.back()};
}

}  // namespace

std::vector<BenchGroup> groups_of(const std::vector<BenchResult>& results) {
  std::vector<BenchGroup> groups;
  const auto add = [&](std::string name, const std::function<bool(const Plan&)>& is_in) {
    std::vector<double> times_floor;
    for (const BenchResult& result : results) {
      if (is_in(result.plan)) times_floor.push_back(result.times_floor());
    }
    if (!times_floor.empty()) groups.push_back(group_of(std::move(name), std::move(times_floor)));
  };
  const auto is_f32 = [](const Plan& plan) { return plan.problem.dtype == DType::f32; };
  const auto is_16_bits = [](const Plan& plan) { return size_of(plan.problem.dtype) == 2; };
  add("all", [](const Plan&) { return true; });
  add("f32", is_f32);
  add("16 bits", is_16_bits);
  add("others", [&](const Plan& plan) { return !is_f32(plan) && !is_16_bits(plan); });
  for (const Family family : values_of<Family>()) {
    add(name(family), [family](const Plan& plan) { return plan.family == family; });
  }
  return groups;
}

std::vector<const BenchResult*> worst_of(const std::vector<BenchResult>& results) {
  std::vector<const BenchResult*> worst;
  worst.reserve(results.size());
  for (const BenchResult& result : results) worst.push_back(&result);
  std::stable_sort(worst.begin(), worst.end(),
                   [](const BenchResult* a, const BenchResult* b) { return a->times_floor() > b->times_floor(); });
  worst.resize(std::min(worst_count, worst.size()));
  return worst;
}

std::string config_text(const Plan& plan) {
  // A plan's text has its config behind its problem.
  const std::string text = to_string(plan);
  const std::vector<std::string_view> lines = lines_of(text);
  const auto config = std::find_if(lines.begin(), lines.end(), [](auto line) { return line.starts_with("threads="); });
  return fmt::format("{}", fmt::join(config, lines.end(), " "));
}

}  // namespace rtopk::tool
