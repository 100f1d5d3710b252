// The named sets of shapes that `rtopk bench` knows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rtopk::tool {

struct BenchShape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t k = 0;
};

/// Shapes of one kind, in sizes that suit a CPU and in sizes that suit a GPU.
struct BenchGrid {
  std::string name;
  std::string about;
  std::string cpu_size;
  std::vector<BenchShape> cpu_shapes;
  std::string gpu_size;
  std::vector<BenchShape> gpu_shapes;
};

[[nodiscard]] const std::vector<BenchGrid>& bench_grids();

}  // namespace rtopk::tool
