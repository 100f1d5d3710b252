#include "bench_grids.hpp"

namespace rtopk::tool {
namespace {

constexpr std::int64_t elements = std::int64_t{1} << 24;  // 64 MiB of f32: larger than most caches, still quick

/// Every k below cols for every cols, the rows such that all matrices have the same number of elements.
std::vector<BenchShape> same_size(const std::vector<std::int64_t>& all_cols, const std::vector<std::int64_t>& all_k) {
  std::vector<BenchShape> shapes;
  for (const std::int64_t cols : all_cols) {
    for (const std::int64_t k : all_k) {
      if (k < cols) shapes.push_back({elements / cols, cols, k});
    }
  }
  return shapes;
}

std::vector<BenchShape> paper() {
  std::vector<BenchShape> shapes;
  for (const std::int64_t rows : {std::int64_t{1} << 14, std::int64_t{1} << 16}) {
    for (const std::int64_t cols : {256, 512, 768}) {
      for (const std::int64_t k : {16, 32, 64, 96, 128}) shapes.push_back({rows, cols, k});
    }
  }
  return shapes;
}

}  // namespace

const std::vector<BenchGrid>& bench_grids() {
  static const std::vector<BenchGrid> grids = {
      {"paper", "M 256 to 768, k 16 to 128; N = 2^14 and 2^16, a size for a CPU", paper()},
      {"sweep", "M 32 to 65536, k 8 to 512; N * M = 2^24",
       same_size({32, 64, 128, 256, 512, 768, 1024, 4096, 8192, 65536}, {8, 32, 64, 128, 512})},
      {"small", "M 32 to 128, k 2 to 8, as in expert routing; N * M = 2^24", same_size({32, 64, 128}, {2, 4, 8})},
      {"large", "M 16384 to 131072, k 64 to 2048, as in sparse autoencoders; N * M = 2^24",
       same_size({16384, 32768, 65536, 131072}, {64, 256, 1024, 2048})},
  };
  return grids;
}

}  // namespace rtopk::tool
