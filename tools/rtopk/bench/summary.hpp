// How far many cases are from their floors: together, by element type and by family.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/case.hpp"

namespace rtopk::tool {

/// Of times / floor.
struct BenchGroup {
  std::string name;
  std::int64_t problems = 0;
  double geometric_mean = 0.0;
  double median = 0.0;
  double percentile_90 = 0.0;  ///< The smallest that at least nine in ten do not exceed.
  double worst = 0.0;
};

/// All; f32, 16 bits and other types; every family. Groups without a problem are left out.
[[nodiscard]] std::vector<BenchGroup> groups_of(const std::vector<BenchResult>& results);

/// The ten results that are the furthest from their floors, the worst first.
[[nodiscard]] std::vector<const BenchResult*> worst_of(const std::vector<BenchResult>& results);

/// The config of a plan in one line: "threads=2 rows_per_block=64 ...".
[[nodiscard]] std::string config_text(const Plan& plan);

}  // namespace rtopk::tool
