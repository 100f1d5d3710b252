// The named sets of shapes that `rtopk bench` knows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rtopk::tool {

struct BenchShape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t k = 0;
};

struct BenchGrid {
  std::string name;
  std::string about;
  std::vector<BenchShape> shapes;
};

[[nodiscard]] const std::vector<BenchGrid>& bench_grids();

}  // namespace rtopk::tool
