// What `rtopk bench` writes as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/case.hpp"

namespace rtopk::tool {

/// What was timed and what came out. `left_out`: problems without a plan.
[[nodiscard]] std::string report_json(const BenchSetting& setting, const std::vector<BenchResult>& results,
                                      std::int64_t left_out);

/// The cases alone, for a run that times nothing.
[[nodiscard]] std::string cases_json(Device device, const std::vector<BenchCase>& cases, std::int64_t left_out);

}  // namespace rtopk::tool
